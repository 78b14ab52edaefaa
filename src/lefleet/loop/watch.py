"""Why a running stage must end: a person asked, a budget is used up, or it hangs."""

import time
from collections.abc import Callable
from pathlib import Path

from lefleet.ledger import Ledger
from lefleet.loop.attempt import Ending
from lefleet.loop.budget import reached, spent
from lefleet.loop.state import RunState
from lefleet.stages.child import PROGRESS
from lefleet.stages.folder import LOG

_ASK_EVERY_S = 0.5
_ASLEEP_S = 5.0
"""A longer pause between two questions means that this process, or the machine, was suspended."""

_SIGNS_OF_LIFE = (PROGRESS, LOG, "attempts.jsonl", "episodes.jsonl")


class Watch:
    """Asked again and again while one stage runs.

    A stage is alive while its files change. Time is counted on this process's monotonic clock and
    only while it looks: a suspended controller or a sleeping laptop is not a hanging stage.
    """

    def __init__(
        self,
        ledger: Ledger,
        run: str,
        folder: Path,
        state: RunState,
        wall_s: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._run = run
        self._folder = folder
        self._state = state
        self._wall_s = wall_s
        self._started = self._asked = time.monotonic()
        self._signs: list[tuple[int, int]] = []
        self._quiet_s = 0.0

    def must_end(self) -> Ending | None:
        now = time.monotonic()
        if now - self._asked < _ASK_EVERY_S:
            return None
        passed, self._asked = now - self._asked, now
        row = self._ledger.run(self._run)
        if row is not None and row.stop_requested:
            return Ending("stop", "a person asked for it")
        used = spent(self._state, self._wall_s(), running_s=now - self._started)
        if limit := reached(self._state.config.budgets, used):
            return Ending("budget", limit)
        return self._hanging(passed)

    def _hanging(self, passed: float) -> Ending | None:
        signs = [_sign(self._folder / name) for name in _SIGNS_OF_LIFE]
        if signs != self._signs:
            self._signs, self._quiet_s = signs, 0.0
        elif passed < _ASLEEP_S:
            self._quiet_s += passed
        limit = self._state.config.hang_after_s
        if self._quiet_s <= limit:
            return None
        return Ending("hang", f"no sign of life for {limit:g} s")


def last_sign_of_life(folder: Path) -> float:
    """When a stage last changed one of its files; 0 where it has none."""
    return max(_sign(folder / name)[0] for name in _SIGNS_OF_LIFE) / 1e9


def _sign(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
