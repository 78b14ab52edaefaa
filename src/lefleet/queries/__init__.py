"""What is shown of runs, episodes and robots: the one place that pages, API and commands read from.

    status     what a run has come to, as `lefleet status --json` prints it
    runs       every run in a line: state, what it waits for, best success, budgets
    run        one run whole: its flow, training, films, and which data and seeds made it
    trouble    why a run stands still, and what a person has to do
    cycles     one cycle: evidence against its bounds, training curve, data and what judged it
    running_gate  the evidence of a gate that has not ended
    pairs      the pairs behind a gate, and their films
    events     what happened, in words, paged and filtered
    words      progress, durations and times in words
    approvals  what runs ask people, and what was answered
    datasets   datasets of runs and robots: which there are, and what is in them at a glance
    episodes   recorded episodes: lists of them, and one whole with tracks, films and labels
    episode_index  which episodes a dataset has, and where their frames are
    tracks     what a robot measured and was told, as lines of a plot
    labels     what was said of episodes, in the dataset and in the ledger
    dataset_files  files of a LeRobotDataset, read without LeRobot
    inspect    what is in a dataset or a checkpoint, and what a training on it would do
    kept       answers that stay the same until their files change
    knowledge  knowledge pages with status, findings and who edited them
    marks      a shape for each state, step and decision
    fleet      servers and robots as they report themselves, and which of them has trouble
    fleet_cards  one server and one robot
    fleet_watch  looks at them again and again, while somebody wants to know

Reads the ledger, the folders of runs and datasets, and Zenoh; writes nothing. Answers are typed and
whole: nobody who shows them looks anything up. Imports `errors`, `records`, `stats`, `process`,
`stages`, `ledger`, `loop`, `knowledge`, `recording` and the client; `actions`, `dash`, `reports`
and `cli` import it.
"""
