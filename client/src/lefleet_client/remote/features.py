"""What a robot says about itself: the order of its columns, its cameras, its rate."""

from collections.abc import Mapping
from dataclasses import dataclass

from lefleet_client.wire import Contract

_SIDES = _CHANNELS = 3


@dataclass(frozen=True)
class RobotFeatures:
    """Names are in the order in which the robot sends and executes columns.

    A server compares them with its checkpoint's contract, and refuses a robot whose motors are in
    another order.
    """

    action_names: tuple[str, ...]
    vectors: Mapping[str, tuple[str, ...]]
    cameras: Mapping[str, tuple[int, int, int]]
    """Height, width and channels by policy feature key."""
    fps: float
    robot_type: str

    def __post_init__(self) -> None:
        if not self.fps > 0:
            raise ValueError(f"fps: {self.fps!r} is not above 0")
        for key, shape in self.cameras.items():
            if len(shape) != _SIDES or shape[2] != _CHANNELS or min(shape) < 1:
                raise ValueError(f"cameras: {key} is {shape}, not height, width and {_CHANNELS}")

    @classmethod
    def of(cls, contract: Contract) -> "RobotFeatures":
        """The server's own order, taken over: nothing is left that could be compared."""
        return cls(
            action_names=contract.action_names,
            vectors=dict(contract.vectors),
            cameras=dict(contract.cameras),
            fps=contract.fps,
            robot_type=contract.robot_type,
        )
