"""Simulated robots in wall-clock time, a policy server, and a slow network, on this machine.

    fit       whether a checkpoint can drive the simulated robot
    server    a policy server as a child process
    relay     a TCP relay that delays both directions
    drive     a robot whose policy is on that server: its connection and its control loop

Imports `records`, `process`, `sim`, `stages`, `policy`, `robots`, `edge` and the client; `profile`
and `trial` run their episodes with it. Observations go through the real network path to the server
and chunks come back; what an episode came to goes to the caller.
"""
