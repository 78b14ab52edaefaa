"""The pages in a real browser; behind them real runs, a real server and robot, and a recording.

The runs are made once for all workers of the tests, and one page after the other is opened.
"""
