"""What latency does to a checkpoint: simulated robots in wall-clock time, a server, a slow network.

    profile   the stage: server, relay and robots at each delay, then the envelope
    fit       whether a checkpoint can drive the simulated robot
    cells     which episodes to run, and what they come to; pure
    server    a policy server as a child process
    relay     a TCP relay that delays both directions
    robot     the program of a robot's process, and its control loop

Imports `records`, `stats`, `process`, `sim`, `stages`, `policy`, `robots`, `edge` and the client;
`stages` starts it by name when such a request comes. Episodes come from robot processes as JSON
lines and go to `episodes.jsonl`; the envelope goes to `record.json` and beside the weights.
"""
