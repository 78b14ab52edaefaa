"""Whole runs with trackers: killed and resumed, they decide what a run without trackers decides."""

import os
import signal
import time
from pathlib import Path

import msgspec

from lefleet.cli.track import TrackCommand, track
from lefleet.ledger import Ledger, open_ledger
from lefleet.loop.runs import begin, find, resume
from lefleet.records import CheckpointRecord
from tests.ledger.ledgers import has_controller
from tests.loop.fuzz import _processes, tiny_config
from tests.track.stores import trackio_rows, wandb_rows

DEADLINE_S = 600.0


def wait_for(condition, what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.05)


def processes(workdir: Path, kind: str) -> list[int]:
    return [one.pid for one in _processes() if one.argv[3:6] == (kind, "exec", str(workdir))]


def result(ledger: Ledger) -> tuple[object, ...]:
    """What must not depend on trackers."""
    records = [one.record for one in ledger.attempts("tiny") if one.state == "committed"]
    digests = [one.digest for one in records if isinstance(one, CheckpointRecord)]
    problems = [one.wandb_problem for one in records if isinstance(one, CheckpointRecord)]
    return digests, ledger.decisions("tiny"), problems


def test_a_tracked_run_that_is_killed_is_the_same_run_and_is_logged_once(tmp_path, monkeypatch):
    monkeypatch.delenv("TRACKIO_DIR", raising=False)
    config = tiny_config("tiny")
    rungs = tuple(msgspec.structs.replace(one, num_workers=0) for one in config.ladder)
    config = msgspec.structs.replace(config, ladder=rungs)
    plain, tracked = tmp_path / "plain", tmp_path / "tracked"
    ledger = open_ledger(tracked)
    begin(ledger, tracked, msgspec.structs.replace(config, track=("trackio", "wandb")))
    wait_for((tracked / "tiny/cycle_0/train/request.json").exists, "the training")
    for pid in processes(tracked, "controller"):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not has_controller(tracked / "tiny"), "the kill")
    resume(ledger, tracked, find(ledger, "tiny"))
    wait_for(lambda: find(ledger, "tiny").state == "finished", "the run")
    for pid in processes(tracked, "track"):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not has_controller(tracked / "tiny"), "the controller's end")

    for _ in range(2):
        wait_for(lambda: not processes(tracked, "track"), "the sender's end")
        assert track(TrackCommand(run="tiny", workdir=tracked)) == 0
    other = open_ledger(plain)
    begin(other, plain, config)
    wait_for(lambda: find(other, "tiny").state == "finished", "the run without trackers")
    assert result(ledger) == result(other)
    logged, files = trackio_rows(tracked / ".trackio"), wandb_rows(tracked / "tiny")
    assert [row["step"] for row in logged["tiny"]] == [0]
    assert [row["step"] for row in files["tiny"]] == [0]
    rate = ledger.decisions("tiny")[0]
    assert logged["tiny"][0]["decision"] == files["tiny"][0]["decision"] == rate.decision
    assert {"success/push_low", "used/device_hours"} <= set(logged["tiny"][0])
    # LeRobot's own.
    assert [row["step"] for row in files["tiny/cycle_0/train"]] == [30]
    assert files["tiny/cycle_0/train"][0]["train/loss"] > 0
    wait_for(lambda: not has_controller(plain / "tiny"), "the controller's end")
    ledger.close()
    other.close()
