"""A trial in a terminal, in lines, and at its end."""

import pytest
from rich.console import Console

from lefleet.cli import trial_view
from lefleet.cli.trial_view import TrialLines, live_table, server_line, show_summary
from lefleet.trial.messages import EpisodeOver, Filmed, Ready, RobotNews, TrialPhase, TrialRequest
from lefleet.trial.status import TrialStatus
from tests.samples import driven_episode

REQUEST = TrialRequest(checkpoint="/c", out="/o", latency=200.0)
READY = Ready(
    digest="dfe3ce5451fb",
    chunk_size=10,
    n_action_steps=5,
    tasks={"robot-1": "push", "robot-2": "door-open"},
)


def news(robot: str = "robot-1", **changes) -> RobotNews:
    fields = {"state": "stalled", "reason": "no action is left", "episode": 2, "progress": 0.25}
    fields |= {"buffer_ms": 62, "action_age_ms": 240, "round_trip_p95_ms": 231.4}
    return RobotNews(robot=robot, **fields | {"chunks": 7, "fallbacks": 31} | changes)


def episode(robot: str = "robot-1", number: int = 1, *, is_cut: bool = False, **driven):
    return EpisodeOver(
        robot=robot,
        number=number,
        driven=driven_episode(**{"ticks": 100, "fallbacks": 10, "late": 0} | driven),
        states={"streaming": 90, "stalled": 10},
        is_cut=is_cut,
    )


def status_after(*messages) -> TrialStatus:
    status = TrialStatus(REQUEST, "demo:blessed")
    for message in messages:
        status.take(message)
    return status


def drawn(status: TrialStatus, width: int) -> list[str]:
    screen = Console(width=width, highlight=False)
    with screen.capture() as captured:
        screen.print(live_table(status, 12.0, width))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_before_the_server_is_ready_the_phase_is_shown():
    status = status_after(TrialPhase(text="loading LeRobot"))
    assert drawn(status, 80) == ["demo:blessed: loading LeRobot, 12 s"]


@pytest.mark.parametrize("width", [80, 120])
def test_each_robot_has_one_row_that_fits(width):
    status = status_after(READY, news(state="reconnecting"), episode(success=True))
    server, head, first, second, _ = drawn(status, width)
    assert server.startswith("policy server: ready, demo:blessed (dfe3ce54), 7 chunks of 10")
    assert head.split()[-3:] == ["p95", "fallbacks", "success"]
    words = ("robot-1", "reconnecting", "2 of 2", "25%", "62 ms", "240 ms", "231 ms", "31", "1/1")
    assert all(word in first for word in words), first
    assert "starting" in second


def test_when_all_have_driven_films_are_counted():
    ends = [episode(robot, number) for robot in READY.tasks for number in (1, 2)]
    status = status_after(READY, news(), news("robot-2"), *ends, Filmed(path="/o/a.mp4"))
    assert server_line(status, 12.0) == "demo:blessed: 1 of 4 films, 12 s"
    assert "done" in drawn(status, 80)[2]


def test_lines_tell_changes_and_are_never_silent_for_long(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(trial_view.time, "monotonic", lambda: now[0])
    lines = TrialLines()
    status = status_after(READY, news())
    lines(status, [READY])
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("policy server: ready")
    assert told[1].startswith("robot-1: stalled (no action is left), episode 2, progress 25%")
    for now[0] in (0.5, 2.0, 4.9):
        lines(status, [])
    assert capsys.readouterr().err == ""
    now[0] = 5.0
    lines(status, [])
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_a_state_that_flickers_is_told_once_a_second(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(trial_view.time, "monotonic", lambda: now[0])
    lines, status = TrialLines(), status_after(READY)
    for tick in range(30):
        now[0] = tick / 10
        status.take(news(state=("streaming", "stalled")[tick % 2]))
        lines(status, [])
    assert 3 <= len(capsys.readouterr().err.splitlines()) <= 4


def test_the_summary_explains_what_latency_did(capsys):
    status = status_after(
        READY,
        episode(success=False, round_trips_ms=(230.0, 231.0)),
        episode(number=2, is_cut=True, success=False, round_trips_ms=(231.0,)),
        episode("robot-2", success=True, late=50, round_trips_ms=(220.0,)),
        Filmed(path="/o/a.mp4"),
        Filmed(path="/o/b.mp4", problem="There is no OpenGL library."),
    )
    show_summary(status.summary(is_interrupted=True))
    text = capsys.readouterr().out
    assert text.startswith("demo:blessed: 1 of 2 episodes succeeded, 2 robots on one server, round")
    assert text.splitlines()[0].endswith("round trips 200 ms longer, 1 cut off (interrupted)")
    assert "A round trip takes 231 ms (p95), the executed part of a chunk lasts 62 ms" in text
    assert "lefleet profile demo:blessed" in text
    assert "50 of 300 ticks came late" in text
    assert "1 film in /o" in text
    assert "No films: There is no OpenGL library." in text
    assert text.count("OpenGL") == 1
    row = next(line for line in text.splitlines() if "door-open" in line)
    assert row.split()[:8] == ["robot-2", "door-open", "1/1", "220", "ms", "80", "ms", "streaming"]
