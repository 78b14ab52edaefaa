"""The only place that reaches into LeRobot instead of going through its registries.

    versions   which LeRobot versions are known here
    memory     state datasets served from tensors in memory, equal to LeRobot's own samples
    train      `lerobot-train` with that data path

On a LeRobot version that is not known, everything here steps aside and LeRobot runs as it is.
Imports LeRobot and torch only; `stages.train` starts `train` as a child process, and `doctor` asks
`versions`. Nobody else imports this folder. Tests compare every sample with LeRobot's.
"""
