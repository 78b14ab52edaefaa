"""What is going on, in lines and in a terminal."""

import io
import threading
import time

import pytest
from rich.console import Console

from lefleet.cli import progress as module
from lefleet.cli.progress import (
    ProgressLines,
    _Line,
    show_phases,
    show_progress,
)
from lefleet.queries.words import duration, progress_text
from lefleet.stages import Update
from lefleet.stages.progress import StageProgress, timed

NOW = 1000.0


def progress(update: Update, *, first: int = 0, since: float = NOW) -> StageProgress:
    """`update` as a stage wrote it at NOW, which began with `first` at `since`."""
    before = timed(update._replace(done=first), None, since)
    return timed(update, before, NOW)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (progress(Update.phase("loading LeRobot"), since=993), "loading LeRobot, 7 s"),
        (progress(Update(0, 9, "episodes", "starting")), "0/9 episodes (starting), 0 s"),
        (progress(Update(3, 9, "steps"), since=940), "3/9 steps, 1 min 0 s, about 2 min 0 s left"),
        (progress(Update(9, 9, "steps"), since=940), "9/9 steps, 1 min 0 s"),
        (
            progress(Update(10, 60, "pairs", "2 won", is_limit=True), since=990),
            "10 of at most 60 pairs (2 won), 10 s, at most about 50 s left",
        ),
    ],
)
def test_progress_says_how_far_how_long_and_about_how_much_longer(made, text):
    assert progress_text(made, NOW) == text


def test_what_was_done_by_an_earlier_attempt_does_not_shorten_the_estimate():
    resumed = progress(Update(600, 1000, "steps"), first=500, since=900)
    assert resumed.eta_s(NOW) == pytest.approx(400)


def test_an_estimate_counts_down_between_two_reports():
    assert progress(Update(5, 10, "steps"), since=990).eta_s(NOW + 4) == pytest.approx(6)
    assert progress(Update(5, 10, "steps"), since=990).eta_s(NOW + 60) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (125, "2 min 5 s"), (12000, "3 h 20 min"), (352800, "4 d 2 h")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until a test moves it."""
    at = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    monkeypatch.setattr(time, "time", lambda: NOW)
    return at


def lines(capsys) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_a_line_names_what_is_new_at_once_and_the_rest_every_five_seconds(capsys, clock):
    show = ProgressLines()
    for update in (Update.phase("loading"), Update(0, 3, "steps"), Update(1, 3, "steps")):
        show("demo", progress(update))
    assert lines(capsys) == ["demo: loading, 0 s", "demo: 0/3 steps, 0 s"]
    clock[0] += 4.9
    show("demo", progress(Update(2, 3, "steps")))
    assert lines(capsys) == []
    clock[0] += 0.1
    show("demo", progress(Update(2, 3, "steps")))
    assert lines(capsys) == ["demo: 2/3 steps, 0 s, about 0 s left"]


def test_the_end_of_a_unit_is_shown_at_once(capsys, clock):
    show = ProgressLines()
    for done in (1, 2, 2):
        show("demo", progress(Update(done, 2, "steps")))
    assert [line.split(",")[0] for line in lines(capsys)] == ["demo: 1/2 steps", "demo: 2/2 steps"]


def test_a_viewer_is_never_silent_for_more_than_five_seconds(capsys, clock):
    show = ProgressLines()
    for _ in range(12):
        show("demo", progress(Update.phase("loading LeRobot")))
        clock[0] += 1.0
    assert len(lines(capsys)) == 3


def test_progress_has_no_control_characters_where_no_terminal_reads_it(capsys):
    with show_progress() as show:
        show("train", progress(Update(1, 2, "steps", "loss 0.5")))
        show("train", progress(Update(2, 2, "steps")))
    text = capsys.readouterr().err
    assert text.count("\n") == 2
    assert text.replace("\n", "").isprintable()


def test_a_phase_of_this_process_is_shown_again_until_it_ends(capsys, monkeypatch):
    monkeypatch.setattr(module, "_PHASE_S", 0.01)
    monkeypatch.setattr(module, "_LINE_EVERY_S", 0.0)
    shown = []
    with show_phases("demo") as progress:
        for name in ("computing digests", "waiting"):
            progress(Update.phase(name))
            before = len(shown)
            while len(shown) < before + 2:
                time.sleep(0.01)
                shown += [line for line in lines(capsys) if f"demo: {name}, 0 s" in line]
    assert "phases" not in [thread.name for thread in threading.enumerate()]


def test_what_ends_at_once_is_not_shown(capsys):
    with show_phases("demo") as progress:
        progress(Update.phase("computing digests"))
    assert lines(capsys) == []


def drawn(width: int, update: Update) -> str:
    out = io.StringIO()
    line = _Line()
    line("demo · cycle 0 (1 of 3) · collect", progress(update))
    Console(file=out, width=width, force_terminal=True, color_system=None).print(line)
    return out.getvalue()


def test_the_first_drawing_has_the_total_of_the_stage():
    assert "0/9 episodes" in drawn(100, Update(0, 9, "episodes"))
    assert "100" not in drawn(100, Update(0, 9, "episodes"))


@pytest.mark.parametrize("width", [1, 10, 40, 99, 100, 200])
def test_a_drawing_is_one_line_in_every_terminal(width):
    (line,) = drawn(width, Update(3, 9, "episodes", "x" * 300)).splitlines()
    assert len(line) <= width


def test_a_terminal_that_is_too_narrow_for_a_bar_has_none():
    assert "━" in drawn(100, Update(3, 9, "episodes"))
    assert "━" not in drawn(99, Update(3, 9, "episodes"))


def test_nothing_is_drawn_before_anything_is_known():
    out = io.StringIO()
    Console(file=out, width=80).print(_Line())
    assert out.getvalue().strip() == ""
