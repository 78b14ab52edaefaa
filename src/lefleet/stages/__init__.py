"""The stages: typed request in, typed record out, everything on disk under one folder.

    folder       a stage's folder: request, lock, record committed once
    progress     how a stage says how far it is
    references   what a user names (stage folder, dataset folder, hub id) to a record
    digest       content digests of datasets and checkpoints
    inputs       do policy, data and simulation fit together
    coverage     every evaluated task must be in the data
    plan         which episodes run in which batch (pure)
    gather       roll out until enough episodes are kept
    layout       how episodes of the simulation lie in a dataset
    datasets     LeRobotDatasets: write, describe, select, merge
    pairs        pairs of episodes: their order, and when they are complete
    verdict      pairs to a verdict and its record
    outcomes     a CSV file of somebody's trials to a verdict
    evidence_plot    the evidence as a picture
    collect, train, evaluate, compare, improve    the bodies

Imports `records`, `stats`, `process`, `sim.tasks`, `rollouts` and, in the bodies only, LeRobot.
`cli` and the loop call `run_stage`. A stage can be killed at any time: run again on the same
folder it goes on from what is on disk, and once `record.json` is there it only returns it.
"""

from lefleet.stages.progress import Progress, Update, silent
from lefleet.stages.run import run_stage

__all__ = ["Progress", "Update", "run_stage", "silent"]
