"""What is going on, for a person: one line that changes in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from lefleet.queries.words import progress_text
from lefleet.stages.progress import Progress, StageProgress, Update, timed

Show = Callable[[str, StageProgress], None]
"""Called several times a second with a label and the newest progress."""

_LINE_EVERY_S = 5.0
_PHASE_S = 0.5
"""How long this process may do something before it says so."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_S = 8
_BAR_WIDTH = 20
_WIDE = 100
"""Columns of a terminal that has room for a bar."""


@contextmanager
def show_progress(*, as_lines: bool = False) -> Iterator[Show]:
    """A function that shows progress on stderr."""
    console = Console(stderr=True)
    if as_lines or not console.is_terminal or console.is_dumb_terminal:
        yield ProgressLines()
        return
    line = _Line()
    with Live(line, console=console, transient=True, refresh_per_second=_FRAMES_PER_S):
        yield line


@contextmanager
def show_phases(label: str, *, as_lines: bool = False) -> Iterator[Progress]:
    """A function to call with what this process does from now on, which is shown until the next
    call or the end. What ends at once is not shown.

    A thread of its own shows it again and again, while the caller works.
    """
    newest: list[StageProgress] = []
    is_over = Event()

    def report(update: Update) -> None:
        newest[:] = [timed(update, None, time.time())]

    with show_progress(as_lines=as_lines) as show:

        def repeat() -> None:
            while not is_over.wait(_PHASE_S):
                for progress in newest:
                    show(label, progress)

        thread = Thread(target=repeat, name="phases", daemon=True)
        thread.start()
        try:
            yield report
        finally:
            is_over.set()
            thread.join()


class _Line:
    """The newest progress with a spinner, in one line; rich draws it in a thread of its own."""

    def __init__(self) -> None:
        self._shown: tuple[str, StageProgress] | None = None

    def __call__(self, label: str, progress: StageProgress) -> None:
        self._shown = label, progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._shown is None:
            return
        label, progress = self._shown
        frame = _SPINNER[int(console.get_time() * _FRAMES_PER_S) % len(_SPINNER)]
        text = Text(f"{frame} {label}: ", no_wrap=True, overflow="ellipsis")
        if progress.total and options.max_width >= _WIDE:
            filled = min(_BAR_WIDTH, _BAR_WIDTH * progress.done // progress.total)
            text.append("━" * filled, "green").append("━" * (_BAR_WIDTH - filled), "dim")
            text.append(" ")
        text.append(progress_text(progress, time.time()))
        yield text


class ProgressLines:
    """A line whenever something new begins or a unit is complete, and every few seconds."""

    def __init__(self) -> None:
        self._next_s = 0.0
        self._written: tuple[str, str, bool] | None = None

    def __call__(self, label: str, progress: StageProgress) -> None:
        now_s = time.monotonic()
        what = label, progress.what, bool(progress.total and progress.done >= progress.total)
        if what == self._written and now_s < self._next_s:
            return
        self._written, self._next_s = what, now_s + _LINE_EVERY_S
        print(f"{label}: {progress_text(progress, time.time())}", file=sys.stderr, flush=True)
