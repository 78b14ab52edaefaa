"""Which LeRobot versions the compat code was compared with."""

from importlib.metadata import version

KNOWN_LEROBOT = ("0.6.1",)


def is_known_lerobot() -> bool:
    return version("lerobot") in KNOWN_LEROBOT
