"""What LeRobot's training prints: progress, loss curve, and why it failed."""

import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lefleet.records import LossPoint

RESUME_MARK = "lefleet: training goes on from step"

_NUMBER = r"([-+\w.]+)"
_METRICS = re.compile(
    rf"\bstep:\S+ .*\bloss:{_NUMBER} grdn:{_NUMBER} lr:{_NUMBER}",
)
_BAR = re.compile(r"Training:\s+\d+%\|.*\|\s+(\d+)/(\d+)\s+\[[^<]*<([^,\]]+)")
_TORCHCODEC = re.compile(r"\[(start|end) of libtorchcodec loading traceback\]", re.IGNORECASE)
_LOG_LINE = re.compile(r"^(INFO|WARNING|DEBUG) |Training:\s+\d+%\||^\s*$|FutureWarning|UserWarning")


class Bar(NamedTuple):
    """LeRobot's progress bar: steps of this process, and the time it still needs."""

    done: int
    total: int
    eta: str


def parse_bar(line: str) -> Bar | None:
    found = _BAR.search(line)
    return Bar(int(found[1]), int(found[2]), found[3].strip()) if found else None


def parse_metrics(line: str) -> tuple[float, float, float] | None:
    """Loss, gradient norm and learning rate of a log line."""
    found = _METRICS.search(line)
    return (float(found[1]), float(found[2]), float(found[3])) if found else None


def read_curve(lines: Iterable[str], log_every: int) -> tuple[list[LossPoint], list[int]]:
    """Loss curve and the steps at which the training was resumed.

    LeRobot abbreviates steps ("1K"), so they are counted: one line every `log_every` steps.
    What was computed after the checkpoint that a resumed training started from is dropped.
    """
    curve: list[LossPoint] = []
    resumed: list[int] = []
    step = 0
    for line in lines:
        if RESUME_MARK in line:
            start = int(line.split()[-1])
            resumed.append(start)
            curve = [point for point in curve if point.step <= start]
            step = start - start % log_every
        elif metrics := parse_metrics(line):
            step += log_every
            loss, grad_norm, rate = (_finite(value) for value in metrics)
            curve.append(LossPoint(step=step, loss=loss, grad_norm=grad_norm, learning_rate=rate))
    return curve, resumed


def last_words(lines: Iterable[str], count: int = 3) -> str:
    """The last meaningful lines: no log chatter, no progress bars, no torchcodec traceback.

    torchcodec prints a long traceback wherever ffmpeg is missing; LeRobot then uses another
    decoder, so it is never the reason.
    """
    said = [line.strip() for line in _without_torchcodec(lines) if not _LOG_LINE.search(line)]
    return " | ".join(said[-count:])


def split_lines(text: str) -> list[str]:
    """Lines of a log with progress bars, which return the carriage instead of ending a line."""
    return re.split(r"[\r\n]+", text)


def _without_torchcodec(lines: Iterable[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        mark = _TORCHCODEC.search(line)
        if mark:
            inside = mark[1].lower() == "start"
        elif not inside:
            yield line


def _finite(value: float) -> float:
    """JSON has no NaN; a loss that is none counts as infinitely bad."""
    return value if math.isfinite(value) else math.inf
