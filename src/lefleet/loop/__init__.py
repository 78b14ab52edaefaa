"""The loop: collect, train, evaluate, decide, improve, again and again, within budgets.

    runs         start, find and stop runs
    plan         what a run would do
    config       YAML file and --key=value overrides to a RunConfig
    state        what has happened so far, read from the ledger
    seeds        which seeds a cycle may use
    requests     the request of every stage, as a pure function of config and state
    decide       evidence and history to a decision (pure)
    limits       budgets, attempts at a stage and waits between them (pure)
    next_step    state to the one thing to do next (pure)
    evidence     the records of a cycle, put before `decide`
    stage_process  launch a stage's process or attach to it, watch it, end it
    attempts     attempts at stages in the ledger: open, committed, closed
    controller   takes the next step until there is none
    status       what a run has come to
    summary      the files that it leaves for people

Imports `ledger`, `stages`, `stats`, `process`, `records`; `cli` starts controllers and reads. All
that a controller knows it reads from the ledger, so any of its processes can be killed at any
time and another one goes on.
"""
