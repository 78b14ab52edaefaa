"""What a run is doing, read from its ledger and the folder of its stage."""

import time

import msgspec
import pytest

from lefleet.ledger import open_ledger
from lefleet.loop.activity import activity
from lefleet.loop.requests import stage_folder
from lefleet.records import Budgets
from lefleet.stages import Update
from lefleet.stages.progress import LOADING, ProgressWriter
from tests.ledger.ledgers import REQUEST, execute
from tests.loop.states import config, decision, proposal, record


@pytest.fixture
def ledger(tmp_path):
    """Of a run r that has just begun."""
    made = open_ledger(tmp_path)
    made.create_run("r", msgspec.to_builtins(config(budgets=Budgets(cycles=2))))
    yield made
    made.close()


def doing(ledger, tmp_path, *, is_controlled=True):
    found = activity(ledger, ledger.run("r"), tmp_path / "r", is_controlled=is_controlled)
    assert found is not None
    return found


def commit(ledger, cycle, *stages):
    for stage in stages:
        ledger.commit_stage(ledger.start_attempt("r", cycle, stage, REQUEST), record(cycle, stage))


def test_a_run_that_has_ended_does_nothing(ledger, tmp_path):
    ledger.set_run_state("r", "finished")
    assert activity(ledger, ledger.run("r"), tmp_path / "r", is_controlled=False) is None


def test_before_the_first_stage_the_controller_starts_and_then_the_stage(ledger, tmp_path):
    now = doing(ledger, tmp_path, is_controlled=False)
    assert (now.cycle, now.cycles, now.stage, now.attempt) == (0, 2, "", 0)
    assert (now.progress().detail, now.wait) == ("starting the controller", None)
    assert doing(ledger, tmp_path).progress().detail == "settling what the cycle does"
    ledger.record_proposal("r", proposal(0, config()))
    now = doing(ledger, tmp_path)
    assert (now.stage, now.progress().detail) == ("collect", "starting")


def test_a_running_stage_says_how_far_it_is(ledger, tmp_path):
    ledger.start_attempt("r", 0, "collect", REQUEST)
    now = doing(ledger, tmp_path)
    assert (now.stage, now.attempt, now.progress().detail) == (
        "collect",
        1,
        "starting the process",
    )
    folder = stage_folder(tmp_path / "r", 0, "collect")
    folder.mkdir(parents=True)
    ProgressWriter(folder)(Update(3, 9, "episodes"))
    assert (now.progress().done, now.progress().total) == (3, 9)


def test_what_the_controller_loads_before_it_starts_a_stage_is_named(ledger, tmp_path):
    folder = stage_folder(tmp_path / "r", 0, "collect")
    folder.mkdir(parents=True)
    ledger.record_proposal("r", proposal(0, config()))
    now = doing(ledger, tmp_path)
    ProgressWriter(folder)(LOADING)
    assert now.progress().detail == "loading LeRobot"


def test_what_an_interrupted_stage_reported_is_not_shown(ledger, tmp_path):
    folder = stage_folder(tmp_path / "r", 0, "collect")
    folder.mkdir(parents=True)
    ledger.start_attempt("r", 0, "collect", REQUEST)
    ProgressWriter(folder)(Update(3, 9, "episodes"))
    execute(tmp_path, "UPDATE run SET resumed_at = 5.0")
    now = doing(ledger, tmp_path, is_controlled=False)
    assert now.progress().detail == "waiting for a controller: none is running"


def test_what_an_earlier_attempt_reported_is_not_shown(ledger, tmp_path):
    folder = stage_folder(tmp_path / "r", 0, "collect")
    folder.mkdir(parents=True)
    ProgressWriter(folder)(Update(3, 9, "episodes"))
    ledger.start_attempt("r", 0, "collect", REQUEST)
    assert doing(ledger, tmp_path).progress().total == 0


def test_between_two_stages_and_at_the_end_the_controller_says_what_it_does(ledger, tmp_path):
    seen = []
    for cycle, stages in enumerate((("collect", "train", "evaluate"), ("collect", "train"))):
        for stage in stages:
            commit(ledger, cycle, stage)
            now = doing(ledger, tmp_path)
            seen.append((now.cycle, now.stage, now.progress().detail))
        if cycle == 0:
            ledger.record_decision("r", decision(0, "baseline", "c0"))
            seen.append(doing(ledger, tmp_path)[:3])
    assert seen == [
        (0, "train", "starting"),
        (0, "evaluate", "starting"),
        (0, "", "deciding"),
        (1, 2, ""),
        (1, "train", "starting"),
        (1, "evaluate", "starting"),
    ]
    commit(ledger, 1, "evaluate", "gate")
    ledger.record_decision("r", decision(1, "iterate", "c0"))
    now = doing(ledger, tmp_path)
    assert (now.cycle, now.stage) == (1, "")
    assert now.progress().detail == "writing the summary and the plots"


def test_a_stage_that_is_killed_again_and_again_waits_for_its_next_attempt(ledger, tmp_path):
    ledger.record_proposal("r", proposal(0, config()))
    for _ in range(4):
        attempt = ledger.start_attempt("r", 0, "collect", REQUEST)
        ledger.end_attempt(attempt, "killed", "A worker was killed by SIGKILL.")
    now = doing(ledger, tmp_path)
    assert now.wait is not None
    assert (now.wait.kind, now.attempt) == ("retry", 0)
    assert now.wait.until == pytest.approx(time.time() + 8, abs=5)
    assert now.wait.what.startswith("attempt 5 at ")
    assert now.wait.what.endswith("; attempt 4: A worker was killed by SIGKILL.")
    assert now.progress().detail == f"waiting for {now.wait.what}"


def test_a_run_that_is_asked_to_stop_waits_for_its_stage(ledger, tmp_path):
    ledger.start_attempt("r", 0, "collect", REQUEST)
    ledger.request_stop("r")
    now = doing(ledger, tmp_path)
    assert now.wait is not None
    assert (now.stage, now.wait.kind) == ("collect", "stop")


def test_a_run_without_a_controller_waits_for_one(ledger, tmp_path):
    execute(tmp_path, "UPDATE run SET resumed_at = 5.0")
    ledger.start_attempt("r", 0, "collect", REQUEST)
    now = doing(ledger, tmp_path, is_controlled=False)
    assert now.wait is not None
    assert (now.wait.kind, now.attempt) == ("resume", 0)


def test_as_json_it_has_an_estimate(ledger, tmp_path):
    ledger.start_attempt("r", 0, "collect", REQUEST)
    found = doing(ledger, tmp_path).as_json()
    assert (found["stage"], found["eta_s"], found["wait"]) == ("collect", None, None)
    assert found["progress"]["detail"] == "starting the process"
    ledger.request_stop("r")
    assert doing(ledger, tmp_path).as_json()["wait"]["kind"] == "stop"
