"""Series of a run in real trackers: every point once, and nothing that goes wrong fails a run."""

import os
import signal
import subprocess
import sys
import time

import pytest

from lefleet.constitution import find, installed, rules_for
from lefleet.loop.tracking import tracked_series
from lefleet.process.errand import started
from lefleet.track import track_new
from lefleet.track.outbox import LOCK, LOG, handled, set_handled
from lefleet.track.sender import send_pending
from lefleet.track.trackers import write_trackio, write_wandb
from tests.track.runs import begin, decide, run_config
from tests.track.stores import trackio_rows, wandb_rows

DEADLINE_S = 120.0


@pytest.fixture(autouse=True)
def no_store_of_the_user(monkeypatch):
    monkeypatch.delenv("TRACKIO_DIR", raising=False)


def send(workdir) -> None:
    """Under the rules of a run, as its controller would."""
    with installed(rules_for(find(workdir), run_config(), workdir)):
        assert send_pending(workdir, "r") == 0


def test_both_trackers_have_every_point_once_however_often_it_is_sent(tmp_path):
    ledger = begin(tmp_path, "trackio", "wandb")
    for cycle in range(3):
        decide(ledger, cycle)
        send(tmp_path)
    # As where a sender is killed after it has written, and before it has said so.
    set_handled(tmp_path / "r", "trackio", 0)
    set_handled(tmp_path / "r", "wandb", 1)
    send(tmp_path)
    logged = trackio_rows(tmp_path / ".trackio")
    files = wandb_rows(tmp_path / "r" / "track")
    trainings = {name for name in logged if name.endswith("train")}
    assert trainings == {f"r:{cycle} train" for cycle in range(3)}
    assert set(files) == set(logged) - trainings == {"r", "r:1 gate", "r:2 gate"}
    for rows in (logged, files):
        assert [row["step"] for row in rows["r"]] == [0, 1, 2]
        assert [row["success"] for row in rows["r"]] == [0.25, 0.5, 0.75]
        assert [row["decision"] for row in rows["r"]] == ["baseline", "promote", "promote"]
        assert rows["r"][2]["success/push_low"] < 0.75 < rows["r"][2]["success/push_high"]
        assert rows["r"][2]["gate/pairs"] == 10
        assert [row["step"] for row in rows["r:1 gate"]] == [4]
    assert [row["train/loss"] for row in logged["r:0 train"]] == [0.5, 0.25]
    assert handled(tmp_path / "r") == {"trackio": 3, "wandb": 3}
    assert [event.kind for event in ledger.events("r")].count("track_failed") == 0
    ledger.close()


def test_two_runs_share_a_store_and_not_their_points(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        ledger = begin(tmp_path / name)
        decide(ledger, 0)
        write_in_child(tmp_path / name, tmp_path / "store")
        ledger.close()
    assert [row["step"] for row in trackio_rows(tmp_path / "store")["r"]] == [0, 0]


def write_in_child(workdir, store) -> None:
    argv = [sys.executable, "-m", "lefleet", "track", "write", str(workdir), "r", "trackio"]
    subprocess.run(argv, check=True, env={**os.environ, "TRACKIO_DIR": str(store)})


KILLED = """
import os, sys
from pathlib import Path
from lefleet.ledger import read_ledger
from lefleet.loop.tracking import tracked_series
from lefleet.track import trackers
import {module} as module
write = module.{name}
left = int(sys.argv[2])
def once(*args, **kwargs):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)
    return write(*args, **kwargs)
module.{name} = {wrapper}
ledger = read_ledger(Path(sys.argv[1]))
trackers.{writer}(tracked_series(ledger, ledger.run("r")), Path(sys.argv[3]))
"""
TRACKIO = KILLED.format(
    module="trackio.sqlite_storage",
    name="SQLiteStorage.bulk_log",
    wrapper="staticmethod(once)",
    writer="write_trackio",
)
WANDB = KILLED.format(
    module="wandb.sdk.wandb_run", name="Run.log", wrapper="once", writer="write_wandb"
)


@pytest.mark.parametrize(
    ("code", "writer", "rows"),
    [(TRACKIO, write_trackio, trackio_rows), (WANDB, write_wandb, wandb_rows)],
    ids=["trackio", "wandb"],
)
def test_a_writer_that_is_killed_leaves_no_point_out_and_none_twice(tmp_path, code, writer, rows):
    """At every place: before its first point, between two of them, before its last."""
    ledger = begin(tmp_path)
    for cycle in range(3):
        decide(ledger, cycle)
    store, series = tmp_path / "store", tracked_series(ledger, ledger.run("r"))
    for calls in range(4):
        argv = [sys.executable, "-c", code, str(tmp_path), str(calls), str(store)]
        environment = {**os.environ, "TRACKIO_DIR": str(store)}
        killed = subprocess.run(argv, check=False, env=environment, capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    argv = [sys.executable, "-c", code, str(tmp_path), "1000", str(store)]
    subprocess.run(argv, check=True, env={**os.environ, "TRACKIO_DIR": str(store)})
    wanted = {
        one.name: [point.step for point in one.points]
        for one in series
        if writer is write_trackio or one.kind != "train"
    }
    assert {name: [row["step"] for row in some] for name, some in rows(store).items()} == wanted
    ledger.close()


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Puts a trackio that does something else in front of the real one, for children."""

    def make(code: str) -> None:
        package = tmp_path / "broken" / "trackio"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(code)
        inherited = os.environ.get("PYTHONPATH", "")
        monkeypatch.setenv("PYTHONPATH", f"{package.parent}{os.pathsep}{inherited}")

    return make


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('the disk is full')", "exited with code 1: RuntimeError: the disk"),
        ("import time; time.sleep(600)", "trackio did not take it within 3 s."),
        ("import os; os.kill(os.getpid(), 11)", "was killed by SIGSEGV"),
    ],
    ids=["fails", "hangs", "crashes"],
)
def test_a_tracker_that_does_not_work_is_an_event_and_holds_up_no_other(
    tmp_path, monkeypatch, broken, code, said
):
    broken(code)
    hangs = "sleep" in code
    monkeypatch.setattr("lefleet.track.sender.LIMIT_S", 3.0 if hangs else 100.0)
    workdir = tmp_path / "runs"
    # A writer that works may need more than that on a busy machine.
    ledger = begin(workdir, "trackio", *(() if hangs else ("wandb",)))
    decide(ledger, 0)
    send(workdir)
    (event,) = [one for one in ledger.events("r") if one.kind == "track_failed"]
    assert event.data["tracker"] == "trackio"
    assert said in event.data["error"]
    if not hangs:
        assert [row["step"] for row in wandb_rows(workdir / "r" / "track")["r"]] == [0]
    # Not again before there is something new.
    send(workdir)
    assert [one.kind for one in ledger.events("r")].count("track_failed") == 1
    ledger.close()


def test_what_a_tracker_missed_is_logged_with_the_next_decision(tmp_path):
    ledger = begin(tmp_path, "trackio")
    decide(ledger, 0)
    (tmp_path / ".trackio").write_text("a file where a folder is wanted")
    send(tmp_path)
    (tmp_path / ".trackio").unlink()
    decide(ledger, 1)
    send(tmp_path)
    assert [row["step"] for row in trackio_rows(tmp_path / ".trackio")["r"]] == [0, 1]
    kinds = [event.kind for event in ledger.events("r")]
    assert kinds.count("track_failed") == 1
    ledger.close()


def test_the_controllers_part_returns_at_once_and_starts_nothing_where_nothing_is_new(tmp_path):
    ledger = begin(tmp_path, "trackio")
    track_new(ledger, tmp_path, "r", ("trackio",))
    assert tmp_path / "r" / LOCK not in started
    decide(ledger, 0)
    with installed(rules_for(find(tmp_path), run_config(), tmp_path)):
        track_new(ledger, tmp_path, "r", ("trackio",))
    child = started.pop(tmp_path / "r" / LOCK)
    deadline = time.monotonic() + DEADLINE_S
    while not handled(tmp_path / "r"):
        assert time.monotonic() < deadline, (tmp_path / "r" / LOG).read_text()
        time.sleep(0.05)
    child.wait(DEADLINE_S)
    assert len(trackio_rows(tmp_path / ".trackio")["r"]) == 1
    track_new(ledger, tmp_path, "r", ("trackio",))
    assert tmp_path / "r" / LOCK not in started
    ledger.close()
