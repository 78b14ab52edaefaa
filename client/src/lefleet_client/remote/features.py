"""What a robot says about itself: the order of its columns, its cameras, its rate."""

from collections.abc import Mapping
from dataclasses import dataclass

from lefleet_client.wire import Contract


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
