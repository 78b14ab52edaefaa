"""The pages in a real browser; behind them real runs, a real server and robot, and a recording.

All of it is in one group of tests: the runs are made once, and one page after the other is opened.
"""
