"""What a policy is asked: everything that a chunk depends on."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Frame = dict[str, NDArray[Any]]
"""What was seen at one moment by feature key: float32 vectors, uint8 RGB images as H x W x 3."""


class BadRequest(ValueError):
    """A request that the policy cannot be asked; the text is for the robot's operator."""


@dataclass(frozen=True)
class PolicyRequest:
    """One question. The last of `frames` is the present, earlier ones come at control spacing.

    Prefixes hold what is left of the last chunk, without padding: `prefix_model` as the policy
    made it, `prefix_robot` as the robot executes it.
    """

    frames: tuple[Frame, ...]
    task: str
    robot_type: str
    seed: int
    inference_delay_steps: int = 0
    prefix_model: NDArray[Any] | None = None
    prefix_robot: NDArray[Any] | None = None


@dataclass(frozen=True)
class Chunk:
    """Actions as the policy made them and as the robot executes them: float32, step x action."""

    model: NDArray[Any]
    robot: NDArray[Any]
