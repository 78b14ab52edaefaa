"""lefleet try as a user types it: one real trial, Ctrl-C in a terminal, and what is refused."""

import json

import av
import pytest

from lefleet.records import decode
from lefleet.trial.status import TrialSummary
from tests.cli.child import SLOW_S, Child
from tests.cli.terminal import CTRL_C, Terminal

LATENCY_MS = 60.0


@pytest.fixture(scope="module")
def finished(weak, tmp_path_factory):
    """A trial that has ended: its output, and its folder."""
    folder = tmp_path_factory.mktemp("try")
    options = ("--task", "push", "door-open", "--episodes", "1", "--latency", f"{LATENCY_MS:g}")
    with Child("try", str(weak), *options, "--out", "out", "--json", folder=folder) as child:
        child.wait_for(lambda one: one.out[-1:] == ["}"])
        assert child.end() == 0, child.err
        return child, folder / "out"


def test_the_summary_is_one_object(finished):
    child, out = finished
    summary = decode("\n".join(child.out), TrialSummary, "stdout")
    assert decode((out / "summary.json").read_bytes(), TrialSummary, "file") == summary
    assert [one.task for one in summary.robots] == ["push", "door-open"]
    assert (summary.episodes, summary.is_interrupted, summary.films_note) == (2, False, "")
    for robot in summary.robots:
        assert robot.ticks > 0
        assert sum(robot.states.values()) == pytest.approx(1)
        assert "streaming" in robot.states


def test_latency_is_seen_in_the_round_trips(finished):
    summary = json.loads("\n".join(finished[0].out))
    assert all(one["round_trip_p95_ms"] >= LATENCY_MS for one in summary["robots"])
    assert all(one["action_age_ms"] >= LATENCY_MS for one in summary["robots"])


def test_every_episode_has_a_film_that_plays(finished):
    child, out = finished
    summary = decode("\n".join(child.out), TrialSummary, "stdout")
    names = ["robot-1_1_push.mp4", "robot-2_1_door-open.mp4"]
    assert sorted(summary.films) == [str(out / name) for name in names]
    assert sorted(path.name for path in out.glob("*.mp4")) == names
    for path in summary.films:
        with av.open(path) as film:
            frames = sum(1 for _ in film.decode(video=0))
            assert film.streams.video[0].average_rate == 40
        assert frames > 10


def test_what_happens_is_told_in_lines(finished):
    told = finished[0].err
    for beginning in (
        f"{told[0].partition(':')[0]}: starting the policy server",
        "policy server: ready",
        ("robot-1: streaming", "robot-1: connecting", "robot-1: stalled"),
        "robot-2: episode 1 ",
        "film: ",
    ):
        assert any(line.startswith(beginning) for line in told), (beginning, told)


def test_ctrl_c_ends_robots_and_server_and_keeps_films(weak, tmp_path):
    options = ("--task", "push", "--robots", "1", "--episodes", "100", "--out", "out")
    with Terminal("try", str(weak), *options, folder=tmp_path) as terminal:
        terminal.wait_for("loading LeRobot", SLOW_S)
        terminal.wait_for("policy server: ready", SLOW_S)
        terminal.wait_for("3 of 100", SLOW_S)
        terminal.press(CTRL_C)
        assert terminal.end() == 130
        assert terminal.processes == []
    assert "(interrupted)" in terminal.shown
    assert "Traceback" not in terminal.shown + (tmp_path / "out/log.txt").read_text()
    assert "event=drained" in (tmp_path / "out/log.txt").read_text()
    summary = decode((tmp_path / "out/summary.json").read_bytes(), TrialSummary, "file")
    assert summary.is_interrupted
    assert summary.episodes >= 2
    for path in summary.films:
        with av.open(path) as film:
            assert sum(1 for _ in film.decode(video=0)) > 10


def test_ctrl_c_before_robots_move_leaves_nothing(weak, tmp_path):
    with Terminal("try", str(weak), "--out", "out", folder=tmp_path) as terminal:
        terminal.wait_for("loading LeRobot", SLOW_S)
        terminal.press(CTRL_C)
        assert terminal.end() == 130
        assert terminal.processes == []
    assert "lefleet: interrupted." in terminal.shown
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--robots", "0"), "robots"),
        (("--episodes", "0"), "episodes"),
        (("--latency", "-5"), "latency"),
        (("--jitter", "5000"), "jitter"),
        (("--seconds", "-1"), "seconds"),
        (("--task", "pussh"), "Did you mean push"),
        (("--out", "."), "is not an empty folder"),
    ],
)
def test_a_bad_option_is_named_before_anything_starts(
    lefleet, checkpoint_of, tmp_path, arguments, problem
):
    (tmp_path / "mine.txt").touch()
    code, out, err = lefleet("try", str(checkpoint_of("act_environment")), *arguments)
    assert (code, out) == (2, "")
    assert problem in err
    assert not (tmp_path / "runs").exists()


def test_a_checkpoint_that_does_not_exist_is_refused(lefleet):
    code, _, err = lefleet("try", "no-such-run")
    assert code == 2
    assert "no-such-run" in err


def test_an_arm_of_ones_own_is_refused_with_what_fits(lefleet, checkpoint_of, tmp_path):
    code, out, err = lefleet("try", str(checkpoint_of("act_images")), "--task", "push")
    assert (code, out) == (2, "")
    assert "checkpoint: the policy looks through observation.images" in err
    assert "actions hand_x.vel" in err
    assert not (tmp_path / "runs").exists()
