"""Measured claims: `make bench`, or `python -m benchmarks [name ...] [--quick]`.

    data_path     time that a training waits for data, LeRobot's loader against memory
    images        part of a training step with cameras that is decoding, for films and PNG
    decisions     false promotions of simulated runs, power and pairs of the gate
    evaluation    episodes per minute, lerobot-eval against lefleet eval
    improvement   more demonstrations against harvest against correct, at equal numbers
    proposer      demonstrations split by failure against a uniform split, at equal numbers
    tasks         success on the MT10 tasks outside easy3
    startup       a stage forked from a warm process against a new program; the whole demo
    overhead      what LeFleet itself adds to the wall time of a run
    ledger        append and status as the ledger grows to a million events
    dashboard     pages and API calls with a hundred runs and a million events, and memory
    latency       success with the policy behind a slow network, against one on board
    hostile       an honest robot beside attacks at full rate, latency and memory

Each prints a table and replaces its own section of `RESULTS.md`; ratios are taken within one run.
`--quick` only checks that everything still works: it is far too small to measure anything and
leaves `RESULTS.md` as it is. `--folder DIR` keeps what stages did, so that an interrupted
benchmark resumes. `workshop` runs stages and commands, `gates` simulates gates,
`equal_power` compares them with tests of fixed size, `settling` checks the pairs that `compare`
asks for, `local_robot` is a robot with its policy on board, `report` makes the Markdown.
"""
