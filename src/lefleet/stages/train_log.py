"""What LeRobot's training prints: progress, loss curve, and why it failed."""

import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lefleet.records import LossPoint

START_MARK = "lefleet: training starts from step"

_NUMBER = r"([-+\w.]+)"
_METRICS = re.compile(
    rf"\bstep:\S+ .*\bloss:{_NUMBER} grdn:{_NUMBER} lr:{_NUMBER}",
)
_BAR = re.compile(r"Training:\s+\d+%\|.*\|\s+(\d+)/(\d+)\s+\[[^<]*<([^,\]]+)")
_TORCHCODEC_START = "WARNING:lerobot.utils.import_utils:Could not load libtorchcodec"
_TORCHCODEC_END = "[end of libtorchcodec loading traceback]"
_LOG_RECORD = re.compile(r"^(INFO|WARNING|DEBUG)\b")
_NOISE = re.compile(
    r"Training:\s+\d+%\||^\s*$|FutureWarning|UserWarning|^'torchcodec' is installed but cannot"
)


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
    What was computed after the checkpoint that a later attempt started from is dropped.
    """
    curve: list[LossPoint] = []
    resumed: list[int] = []
    step = 0
    for line in lines:
        if START_MARK in line:
            start = int(line.split()[-1])
            resumed += [start] if start else []
            curve = [point for point in curve if point.step <= start]
            step = start - start % log_every
        elif metrics := parse_metrics(line):
            step += log_every
            loss, grad_norm, rate = metrics
            curve.append(
                LossPoint(
                    step=step,
                    loss=_number(loss),
                    grad_norm=_number(grad_norm),
                    learning_rate=rate,
                )
            )
    return curve, resumed


def last_words(lines: Iterable[str], count: int = 3) -> str:
    """The last meaningful lines: no log records, no progress bars, no torchcodec.

    torchcodec prints a long traceback wherever ffmpeg is missing; LeRobot then uses another
    decoder, so it is never the reason.
    """
    said = [line.strip() for line in _outside_log_records(lines) if not _NOISE.search(line)]
    return " | ".join(said[-count:])


def split_lines(text: str) -> list[str]:
    """Lines of a log with progress bars, which return the carriage instead of ending a line."""
    return re.split(r"[\r\n]+", text)


def _outside_log_records(lines: Iterable[str]) -> Iterator[str]:
    """Lines that are neither a log record nor its indented continuation."""
    in_torchcodec = in_record = False
    for line in lines:
        if _TORCHCODEC_START in line:
            in_torchcodec = True
        elif in_torchcodec:
            in_torchcodec = _TORCHCODEC_END not in line
        elif _LOG_RECORD.match(line):
            in_record = True
        elif not (in_record and line.startswith(" ")):
            in_record = False
            yield line


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
