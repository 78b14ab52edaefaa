"""A trial for a person: a table that changes in a terminal, lines elsewhere, and the summary."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lefleet.cli.display import console, table
from lefleet.cli.output import printable
from lefleet.queries.words import duration
from lefleet.trial.messages import EpisodeOver, Filmed, Ready, TrialMessage, TrialPhase
from lefleet.trial.status import RobotSoFar, RobotSummary, TrialStatus, TrialSummary

_LINE_EVERY_S = 5.0
_MOST_LATE = 0.01
"""Share of late ticks above which a machine was too busy."""
_STATE_EVERY_S = 1.0
"""A robot on a slow network may change its state many times a second."""
_BAR_WIDTH = 10
_WIDE = 110
"""Columns of a terminal that has room for bars."""
_STYLES = {"streaming": "green", "stalled": "red", "dead": "red"}
_OTHER_STYLE = "yellow"
_GUIDE = "docs/failsafe.md"
_COLUMNS = (
    "p95: round trip. age: of executed actions, from their observation on. connecting: waiting for "
    "an episode's first chunk. stalled: no fresh action, so the robot stands still."
)

View = Callable[[TrialStatus, list[TrialMessage]], None]
"""Called about ten times a second, with the messages since the last call."""


@contextmanager
def show_trial(*, as_lines: bool) -> Iterator[View]:
    """A function that shows a trial on stderr."""
    screen = Console(stderr=True)
    if as_lines or not screen.is_terminal or screen.is_dumb_terminal:
        yield TrialLines()
        return
    began_s = time.monotonic()
    with Live(console=screen, auto_refresh=False, transient=True) as live:

        def show(status: TrialStatus, _: list[TrialMessage]) -> None:
            elapsed_s = time.monotonic() - began_s
            live.update(live_table(status, elapsed_s, screen.width), refresh=True)

        yield show


def live_table(status: TrialStatus, elapsed_s: float, width: int) -> RenderableType:
    """The server's line, and a row for each robot."""
    first = Text(server_line(status, elapsed_s), no_wrap=True, overflow="ellipsis")
    if not status.robots:
        return first
    is_wide = width >= _WIDE
    rows = Table(box=None, pad_edge=False, padding=(0, 3 if is_wide else 1, 0, 0))
    for name in ("robot", *(["task"] if is_wide else []), "state", "episode", "progress"):
        rows.add_column(name, no_wrap=True)
    for name in ("buffer", "age", "p95", "fallbacks", "success"):
        rows.add_column(name, justify="right", no_wrap=True)
    for one in status.robots.values():
        task = [one.task] if is_wide else []
        rows.add_row(one.robot, *task, *_cells(one, status, has_bar=is_wide))
    return Group(first, rows, Text("Ctrl-C stops the robots, then the server.", "dim"))


def server_line(status: TrialStatus, elapsed_s: float) -> str:
    """What the server does, or what is done before it runs."""
    since = duration(elapsed_s)
    served = status.served
    if served is None:
        return f"{printable(status.name)}: {status.phase}, {since}"
    if status.is_driven:
        return f"{printable(status.name)}: {len(status.films)} of {status.episodes} films, {since}"
    request = status.request
    jitter = f" and up to {request.jitter:g} ms more" if request.jitter else ""
    delay = f", round trips {request.latency:g} ms longer{jitter}"
    return (
        f"policy server: ready, {printable(status.name)} ({served.digest[:8]}), "
        f"{status.chunks} chunks of {served.chunk_size} steps"
        f"{delay if request.latency or request.jitter else ''}, {since}"
    )


def _cells(robot: RobotSoFar, status: TrialStatus, *, has_bar: bool) -> list[RenderableType]:
    ended, news = robot.ended, robot.news
    succeeded = f"{robot.successes}/{len(ended)}"
    episodes = status.request.episodes
    if news is None:
        return ["starting", f"0 of {episodes}", "", "", "", "", "0", succeeded]
    is_done = len(ended) == episodes
    state = "done" if is_done else news.state
    style = "" if is_done else _STYLES.get(state, _OTHER_STYLE)
    progress = ended[-1].driven.progress if is_done else news.progress
    return [
        Text(state, style),
        f"{news.episode} of {episodes}",
        _progress(progress, has_bar=has_bar),
        f"{news.buffer_ms:.0f} ms",
        f"{news.action_age_ms:.0f} ms",
        f"{news.round_trip_p95_ms:.0f} ms",
        str(news.fallbacks),
        succeeded,
    ]


def _progress(share: float, *, has_bar: bool) -> Text:
    percent = f"{share:4.0%}"
    if not has_bar:
        return Text(percent)
    filled = round(_BAR_WIDTH * share)
    bar = Text("━" * filled, "green").append("━" * (_BAR_WIDTH - filled), "dim")
    return bar.append(f" {percent}", "default")


class TrialLines:
    """A line whenever something changes, and every few seconds."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._silent_since_s = self._began_s
        self._states: dict[str, tuple[str, float]] = {}
        """State of each robot that was written last, and when."""

    def __call__(self, status: TrialStatus, news: list[TrialMessage]) -> None:
        for message in news:
            if line := _line(message, status, time.monotonic() - self._began_s):
                self._write(line)
        now_s = time.monotonic()
        for robot in status.robots.values():
            self._tell_state(robot, now_s)
        if now_s - self._silent_since_s >= _LINE_EVERY_S:
            self._write(server_line(status, now_s - self._began_s))
            for robot in status.robots.values():
                self._write(_robot_line(robot))

    def _tell_state(self, robot: RobotSoFar, now_s: float) -> None:
        if robot.news is None:
            return
        state, since_s = self._states.get(robot.robot, ("", -math.inf))
        if robot.news.state != state and now_s - since_s >= _STATE_EVERY_S:
            self._states[robot.robot] = robot.news.state, now_s
            self._write(_robot_line(robot))

    def _write(self, line: str) -> None:
        self._silent_since_s = time.monotonic()
        print(printable(line), file=sys.stderr, flush=True)


def _line(message: TrialMessage, status: TrialStatus, elapsed_s: float) -> str:
    """What a message says, or nothing where a robot's line says it."""
    match message:
        case TrialPhase() | Ready():
            return server_line(status, elapsed_s)
        case EpisodeOver():
            how = "succeeded" if message.driven.success else "failed"
            how = "was cut off" if message.is_cut else how
            progress, steps = message.driven.progress, message.driven.length
            return (
                f"{message.robot}: episode {message.number} {how} after {steps} steps, "
                f"progress {progress:.0%}"
            )
        case Filmed() if not message.problem:
            return f"film: {message.path}"
        case _:
            return ""


def _robot_line(robot: RobotSoFar) -> str:
    news = robot.news
    if news is None:
        return f"{robot.robot}: starting"
    why = f" ({news.reason})" if news.reason else ""
    return (
        f"{robot.robot}: {news.state}{why}, episode {news.episode}, progress {news.progress:.0%}, "
        f"buffer {news.buffer_ms:.0f} ms, action age {news.action_age_ms:.0f} ms, "
        f"round trip p95 {news.round_trip_p95_ms:.0f} ms, {news.fallbacks} fallbacks"
    )


def show_summary(summary: TrialSummary) -> None:
    """Print what a trial came to."""
    out = console()
    out.print(_title(summary), style="bold")
    out.print(_robots(summary))
    out.print(_COLUMNS)
    for remark in _remarks(summary):
        out.print(remark)
    if summary.films:
        out.print(f"{_count(len(summary.films), 'film')} in {_shown(summary.out)}")
    if summary.films_note:
        out.print(f"No films: {summary.films_note}")
    out.print(f"What the states mean, and how to drive a robot of your own: {_GUIDE}")


def _remarks(summary: TrialSummary) -> Iterator[str]:
    """What explains the numbers."""
    slowest = max((one.round_trip_p95_ms for one in summary.robots), default=0.0)
    if slowest > summary.chunk_ms:
        yield (
            f"A round trip takes {slowest:.0f} ms (p95), the executed part of a chunk lasts "
            f"{summary.chunk_ms:.0f} ms: in between the robots stand still. How much latency this "
            f"checkpoint bears: lefleet profile {summary.checkpoint}"
        )
    late, ticks = (sum(getattr(one, name) for one in summary.robots) for name in ("late", "ticks"))
    if late > ticks * _MOST_LATE:
        yield f"{late} of {ticks} ticks came late: this machine was too busy for these figures."


def _title(summary: TrialSummary) -> str:
    added = f", round trips {summary.latency_ms:g} ms longer" if summary.latency_ms else ""
    jitter = f", jitter up to {summary.jitter_ms:g} ms" if summary.jitter_ms else ""
    title = (
        f"{printable(summary.checkpoint)}: {summary.successes} of "
        f"{_count(summary.episodes, 'episode')} succeeded, {_count(len(summary.robots), 'robot')} "
        f"on one server{added}{jitter}{f', {summary.cut} cut off' if summary.cut else ''}"
    )
    return f"{title} (interrupted)" if summary.is_interrupted else title


def _robots(summary: TrialSummary) -> Table:
    rows = table("robot", "task")
    rows.collapse_padding = True
    for column in ("success", "p95", "age"):
        rows.add_column(column, justify="right", no_wrap=True)
    rows.add_column("states")
    for one in summary.robots:
        rows.add_row(
            one.robot,
            one.task,
            f"{one.successes}/{one.episodes}",
            f"{one.round_trip_p95_ms:.0f} ms",
            f"{one.action_age_ms:.0f} ms",
            _states(one),
        )
    return rows


def _states(robot: RobotSummary) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in robot.states.items())


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _shown(folder: str) -> str:
    """Relative to where the user is, if it is below."""
    here = Path.cwd()
    return str(Path(folder).relative_to(here)) if Path(folder).is_relative_to(here) else folder
