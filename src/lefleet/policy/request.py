"""What a policy is asked, what it answers, and the rules that a request must keep."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PolicyFrame = dict[str, NDArray[Any]]
"""What was seen at one moment by feature key: float32 vectors, uint8 RGB images as H x W x 3."""


class BadRequest(ValueError):
    """A request that the policy cannot be asked; the text is for the robot's operator."""


@dataclass(frozen=True)
class PolicyRequest:
    """One question. The last of `frames` is the present, earlier ones come at control spacing.

    Prefixes hold what is left of the last chunk, without padding: `prefix_model` as the policy
    made it, `prefix_robot` as the robot executes it.
    """

    frames: tuple[PolicyFrame, ...]
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


@dataclass(frozen=True)
class RequestRules:
    """Sizes and keys of one policy's inputs. Prefixes are for policies with `takes_prefix`.

    A wrong request is refused, with its field, before it costs anything.
    """

    vector_sizes: dict[str, int]
    cameras: frozenset[str]
    action_size: int
    n_obs_steps: int
    chunk_size: int = 0
    takes_prefix: bool = False

    def require(self, request: PolicyRequest) -> None:
        """Raise BadRequest, naming the field, unless the policy can be asked this."""
        if not 1 <= len(request.frames) <= self.n_obs_steps:
            raise BadRequest(
                f"frames: {len(request.frames)} observations, the policy looks at "
                f"{self.n_obs_steps}: the present one and {self.n_obs_steps - 1} earlier"
            )
        for number, frame in enumerate(reversed(request.frames)):
            self._require_frame(frame, f" ({number} steps ago)" if number else "")
        if request.inference_delay_steps < 0:
            raise BadRequest(f"inference_delay_steps: {request.inference_delay_steps} is below 0")
        self._require_prefix("prefix_model", request.prefix_model)
        self._require_prefix("prefix_robot", request.prefix_robot)

    def _require_frame(self, frame: PolicyFrame, when: str) -> None:
        known = self.vector_sizes.keys() | self.cameras
        if missing := sorted(known - frame.keys()):
            raise BadRequest(f"{', '.join(missing)}{when}: missing")
        if unknown := sorted(frame.keys() - known):
            raise BadRequest(
                f"{unknown[0]}{when}: the policy does not know it; it takes "
                f"{', '.join(sorted(known))}"
            )
        for key, size in self.vector_sizes.items():
            require_numbers(f"{key}{when}", frame[key], (size,))
        for key in self.cameras:
            image = frame[key]
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
                raise BadRequest(
                    f"{key}{when}: a uint8 image of height x width x 3 is needed, "
                    f"not {image.dtype} of shape {image.shape}"
                )

    def _require_prefix(self, field: str, prefix: NDArray[Any] | None) -> None:
        if prefix is None:
            return
        if not self.takes_prefix:
            raise BadRequest(f"{field}: this policy takes none, see supports_rtc")
        rows = len(prefix) if prefix.ndim else 0
        if not 1 <= rows <= self.chunk_size:
            raise BadRequest(f"{field}: {rows} steps, a chunk has 1 to {self.chunk_size}")
        require_numbers(field, prefix, (rows, self.action_size))


def require_numbers(field: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Raise BadRequest unless `array` is float32 of this shape, without NaN and infinity."""
    if array.dtype != np.float32 or array.shape != shape:
        raise BadRequest(
            f"{field}: float32 of shape {shape} is needed, not {array.dtype} of {array.shape}"
        )
    if not np.isfinite(array).all():
        raise BadRequest(f"{field}: holds NaN or infinity")
