"""What a robot does without a fresh action."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Fallback = Literal["safe", "hold", "repeat_last", "zero"]
"""safe         positions stay at the last command, velocities become zero
hold         nothing is sent; only for robots that then stay where they are
repeat_last  the last command again, velocities too
zero         zero for all; only for robots without positions
"""

Positions = Callable[[Any], NDArray[Any]]
"""Of an observation: the present positions in the order of the actions, NaN where unknown."""

VELOCITY = ".vel"
_LOG = logging.getLogger(__name__)


def require_fallback(fallback: Fallback, action_names: Sequence[str]) -> None:
    """Refuse a fallback that would move this robot."""
    moving = [name for name in action_names if name.endswith(VELOCITY)]
    if fallback == "hold" and moving:
        raise ValueError(
            f"fallback: hold sends nothing, and then {', '.join(moving)} go on moving; use safe"
        )
    placed = [name for name in action_names if not name.endswith(VELOCITY)]
    if fallback == "zero" and placed:
        raise ValueError(
            f"fallback: zero is a position for {', '.join(placed)}, and the robot would drive "
            "there; use safe"
        )


class FallbackLadder:
    """The action to execute instead, from the last command or from what the robot observes."""

    def __init__(
        self, fallback: Fallback, action_names: Sequence[str], positions: Positions | None = None
    ) -> None:
        require_fallback(fallback, action_names)
        self._fallback = fallback
        self._positions = positions
        self._is_velocity = np.array([name.endswith(VELOCITY) for name in action_names])

    def action(self, last: NDArray[Any] | None, seen: Any) -> NDArray[Any] | None:
        """None: send nothing.

        `seen` is the newest observation, None without one. Where no command was sent yet, a robot
        without velocities stays as it is; one with velocities is told to stop, with its present
        positions.
        """
        if self._fallback == "hold":
            return None
        if self._fallback == "zero":
            return np.zeros(len(self._is_velocity), np.float32)
        if last is not None:
            return last if self._fallback == "repeat_last" else self._stopped(last)
        observed = self._observed(seen) if self._is_velocity.any() else None
        return None if observed is None else self._stopped(observed)

    def _stopped(self, action: NDArray[Any]) -> NDArray[Any] | None:
        stopped = np.where(self._is_velocity, np.float32(0), action).astype(np.float32)
        return stopped if np.isfinite(stopped).all() else None

    def _observed(self, seen: Any) -> NDArray[Any] | None:
        if self._positions is None or seen is None:
            return None
        try:
            return self._positions(seen)
        except Exception:  # noqa: BLE001 - a fault must not reach the control loop
            _LOG.exception("the present positions cannot be read, and are not read again")
            self._positions = None
            return None
