"""Output of child processes: its lines, which of them tell nothing, and why a child failed."""

import re
from collections.abc import Iterable, Iterator

from lefleet.errors import ChildKilled, StageFailed
from lefleet.process import exit_words

_DECODER_START = "Could not load libtorchcodec"
_DECODER_END = "[end of libtorchcodec loading traceback]"
_DECODER_REPLACED = "'torchcodec' is installed but cannot"
_LOG_RECORD = re.compile(r"^(INFO|WARNING|DEBUG)\b")
_NOISE = re.compile(r"Training:\s+\d+%\||^\s*$|FutureWarning|UserWarning")


def failure_of(
    program: str,
    code: int,
    oom_kills_before: int,
    output: Iterable[str],
    remedy: str,
    *,
    count: int = 3,
) -> StageFailed:
    """Why a child process failed: the signal that killed it, or the last lines of its output."""
    problem = f"{program} {exit_words(code, oom_kills_before)}"
    if code < 0:
        return ChildKilled(f"{problem}.", remedy)
    return StageFailed(f"{problem}: {last_lines(output, count) or 'it printed nothing'}.", remedy)


def last_lines(lines: Iterable[str], count: int = 3) -> str:
    """The last meaningful lines: no log records, no progress bars, no report on decoders."""
    told = _outside_log_records(without_decoder_report(lines))
    said = [line.strip() for line in told if not _NOISE.search(line)]
    return " | ".join(said[-count:])


def without_decoder_report(lines: Iterable[str]) -> list[str]:
    """Without torchcodec's long traceback: it is printed wherever ffmpeg is missing, LeRobot then
    uses another decoder, and so it is never the reason of a failure."""
    kept: list[str] = []
    report: list[str] = []
    for line in lines:
        if report or _DECODER_START in line:
            report.append(line)
            if _DECODER_END in line:
                report = []
        elif not line.startswith(_DECODER_REPLACED):
            kept.append(line)
    # One without an end may hide anything.
    return kept + report


def split_lines(text: str) -> list[str]:
    """Lines of a log with progress bars, which return the carriage instead of ending a line."""
    return re.split(r"[\r\n]+", text)


def _outside_log_records(lines: Iterable[str]) -> Iterator[str]:
    """Lines that are neither a log record nor its indented continuation."""
    in_record = False
    for line in lines:
        if _LOG_RECORD.match(line):
            in_record = True
        elif not (in_record and line.startswith(" ")):
            in_record = False
            yield line
