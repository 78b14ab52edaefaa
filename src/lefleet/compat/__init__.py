"""The only place that reaches into LeRobot instead of going through its registries.

    train   `lerobot-train` with state data from memory, equal to LeRobot's own samples

On a LeRobot version that is not known, everything here steps aside and LeRobot runs as it is.
`train` imports LeRobot and torch; `stages.train` starts it as a child process, and `lefleet doctor`
asks this module for the known versions. No other code imports this folder. Tests compare every
sample with LeRobot's.
"""

from importlib.metadata import version

KNOWN_LEROBOT = ("0.6.1",)


def is_known_lerobot() -> bool:
    return version("lerobot") in KNOWN_LEROBOT
