"""The loop: collect, train, evaluate, decide, improve, again and again, within budgets.

    runs           start, find and stop runs
    origin         what a run takes from another one: --from
    plan           what a run would do
    preflight      what is tried out before a run begins: device, data, policies, environment
    findings       one finding of these checks, and all of them
    inputs         whether a run's data and checkpoints are on this machine
    existing_data  whether an existing dataset suffices for a run
    config         YAML file and --key=value overrides to a RunConfig
    training       what is known of a run's trainings before it starts, and whether they can work
    corrections    what of a run's config may still change: one rule per field (pure)
    state          what has happened so far, read from the ledger
    steps          the one next step (pure)
    requests       the request of every stage and the seeds that it may use (pure)
    propose        what a cycle should do: demonstrations by task, and the action (pure)
    history        what past cycles did and what came of it, read from the ledger
    proposals      the proposal that holds: a model's within its limits, or the schedule's
    decide         evidence and history to a decision (pure)
    approvals      what a person is asked, and what follows from the answer (pure)
    answers        the open question of a run, and recording what a person says to it
    rules          the run's constitution: kept, installed, watched for changes
    limits         budgets, attempts at a stage and waits between them (pure)
    stage_process  launch a stage's process or attach to it, watch it, end it
    preload        imports in the controller what its stages need, so that they can be its forks
    attempts       attempts at stages in the ledger: open, committed, closed
    controller     takes the next step until there is none
    outlook        knowledge pages and messages, kept up to date
    diagnosis      why nothing works: measured, judged, and written for people
    status         what a run has come to, as JSON and as files for people
    activity       what a run is doing at this moment, and what it waits for
    success_plot   its success as a picture

Imports `ledger`, `stages`, `stats`, `process`, `constitution`, `knowledge`, `models`, `notify` and
`records`; `cli` starts controllers and reads. All that a controller knows it reads from the ledger,
so any of its processes can be killed at any time, and the next one resumes the run.
"""
