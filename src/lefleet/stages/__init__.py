"""The stages: typed request in, typed record out, everything on disk under one folder.

    run             one stage in its folder, in this process or as a process of its own
    folder          a stage's folder: lock, request, journal, record
    progress        what a stage reports while it runs, and its file
    references      what a user names (stage folder, dataset folder, hub id) to a record
    digest          content digests of datasets and checkpoints
    contract        what columns and tasks mean; do policy, data and simulation fit together
    cameras         of the simulation: which ones data and policies have, can they be rendered here
    environment     where episodes run: what a LeRobot environment offers, pinned in the folder
    selection       which episodes of an existing dataset a request takes
    datasets        LeRobotDatasets: write, select, describe, merge
    gather          which episodes run in which batch; roll out until enough are kept
    verdict         pairs of episodes, in a fixed order, to a verdict
    films           pairs of a gate, run again with the camera on
    outcomes        trials recorded elsewhere to a verdict
    outcomes_csv    trials in a CSV file
    eval_info       what lerobot-eval wrote of every episode
    evidence_plot   the evidence as a picture
    normalisation   which of LeRobot's normalisations a training uses, and why
    backbone        what a policy needs beside its data: libraries, ImageNet weights
    fitting         whether data and environment agree in names, shapes and rate
    environment_probe   whether an environment can be made here; a program of its own
    suitability     whether a training can work on a dataset, by its statistics
    state_only      which policies can be trained without a camera, and what their checkpoints make
    fresh_policy    a policy with random weights for data without cameras, to start from
    lerobot_train   lerobot-train's command line, and what it prints
    collect, train, evaluate, compare, improve    the bodies

Imports `records`, `stats`, `process`, `sim`, `rollouts` and, in the bodies only, LeRobot.
`cli` and the loop call `run_stage`. A stage can be killed at any time: run again on the same
folder it resumes from what is on disk, and once `record.json` is there it only returns it.
"""

from lefleet.stages.progress import Progress, Update, silent
from lefleet.stages.run import run_stage

__all__ = ["Progress", "Update", "run_stage", "silent"]
