"""What latency does to a checkpoint: simulated robots in wall-clock time, a server, a slow network.

    profile   the stage: server, relay and robots at each delay, then the envelope
    cells     which episodes to run, and what they come to; pure
    robot     the program of a robot's process

Imports `records`, `stats`, `process`, `sim`, `stages`, `robots` and `testbed`; `stages` starts it
by name when such a request comes. Episodes come from robot processes as JSON lines and go to
`episodes.jsonl`; the envelope goes to `record.json` and beside the weights.
"""
