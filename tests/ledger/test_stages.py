"""Attempts and commits: a stage is committed once, with all that it brought, or not at all."""

import pytest
from sqlalchemy.exc import IntegrityError

from lefleet.ledger import open_ledger
from lefleet.records import ExpertDemos
from tests.ledger.ledgers import REQUEST, execute
from tests.samples import (
    checkpoint_record,
    comparison_record,
    dataset_record,
    episode,
    evaluation_record,
    mix_record,
)


def start(ledger, cycle: int = 0, stage: str = "collect"):
    return ledger.start_attempt("r", cycle, stage, REQUEST)


def states(ledger) -> list[str]:
    return [attempt.state for attempt in ledger.attempts("r")]


def test_an_attempt_begins_with_its_request(ledger):
    attempt = start(ledger, 2, "train")
    assert (attempt.run, attempt.cycle, attempt.stage) == ("r", 2, "train")
    assert (attempt.attempt, attempt.state, attempt.record) == (1, "running", None)
    assert attempt.request == ExpertDemos(tasks=("push",))
    assert ledger.attempts("r") == [attempt]


def test_attempts_count_up_within_their_stage(ledger):
    for stage in ("collect", "collect", "train"):
        ledger.end_attempt(start(ledger, stage=stage), "failed", "no")
    assert [(a.stage, a.attempt) for a in ledger.attempts("r")] == [
        ("collect", 1),
        ("collect", 2),
        ("train", 1),
    ]


def test_an_attempt_left_running_is_closed_by_the_next(ledger):
    start(ledger)
    start(ledger)
    assert states(ledger) == ["gone", "running"]
    assert ledger.attempts("r")[0].ended_at is None, "its end was not seen"


def test_another_stage_that_is_running_is_left_alone(ledger):
    start(ledger, stage="collect")
    start(ledger, stage="train")
    start(ledger, cycle=1, stage="collect")
    assert states(ledger) == ["running"] * 3


def test_a_wait_is_kept_while_the_attempt_runs_and_not_after_it(ledger):
    attempt = start(ledger)
    ledger.record_wait(attempt, 7.5)
    assert [one.waited_s for one in ledger.attempts("r")] == [7.5]
    ledger.end_attempt(attempt, "gone", "lost", ended_at=attempt.started_at + 10.0)
    ledger.record_wait(attempt, 9.0)
    (ended,) = ledger.attempts("r")
    assert ended.worked_s() == pytest.approx(2.5)


def test_an_attempt_ends_with_its_error_and_an_event(ledger):
    ledger.end_attempt(start(ledger), "cancelled", "by lefleet stop")
    (attempt,) = ledger.attempts("r")
    assert (attempt.state, attempt.error) == ("cancelled", "by lefleet stop")
    assert attempt.ended_at >= attempt.started_at
    assert ledger.events("r")[-1].kind == "stage_cancelled"


def test_an_attempt_at_a_stage_of_no_run_is_refused(ledger):
    with pytest.raises(IntegrityError):
        ledger.start_attempt("unknown", 0, "collect", REQUEST)


@pytest.mark.parametrize(
    "record", [dataset_record(), checkpoint_record(), evaluation_record(), mix_record()]
)
def test_a_committed_record_is_there_for_the_next_reader(ledger, tmp_path, record):
    ledger.commit_stage(start(ledger), record)
    (attempt,) = open_ledger(tmp_path).attempts("r")
    assert (attempt.state, attempt.record) == ("committed", record)
    assert ledger.events("r")[-1].kind == "stage_committed"


def test_a_stage_is_committed_once_however_often_it_is_tried(ledger):
    ledger.commit_stage(start(ledger), dataset_record())
    again = start(ledger)
    with pytest.raises(IntegrityError):
        ledger.commit_stage(again, dataset_record(digest="f" * 64))
    assert states(ledger) == ["committed", "running"]
    assert ledger.attempts("r")[0].record == dataset_record()


def test_the_same_stage_of_another_cycle_is_committed_too(ledger):
    ledger.commit_stage(start(ledger, 0), dataset_record())
    ledger.commit_stage(start(ledger, 1), dataset_record())
    assert states(ledger) == ["committed"] * 2


def test_a_commit_that_fails_in_the_middle_leaves_nothing(ledger, tmp_path):
    attempt = start(ledger, stage="evaluate")
    with pytest.raises(IntegrityError):
        ledger.commit_stage(attempt, evaluation_record(), [episode(), episode()])
    assert states(ledger) == ["running"]
    assert execute(tmp_path, "SELECT * FROM evaluation_episode") == []
    assert [event.kind for event in ledger.events("r")] == ["run_created", "stage_started"]


def test_a_second_commit_leaves_no_second_dataset(ledger, tmp_path):
    ledger.commit_stage(start(ledger), dataset_record())
    with pytest.raises(IntegrityError):
        ledger.commit_stage(start(ledger), dataset_record(digest="f" * 64))
    rows = execute(tmp_path, "SELECT digest FROM dataset")
    assert rows == [("d" * 64,)]


def test_episodes_are_kept_with_the_checkpoint_that_acted(ledger, tmp_path):
    record = comparison_record()
    lines = [episode(seed=1), episode(seed=1, policy="baseline", success=False)]
    ledger.commit_stage(start(ledger, stage="gate"), record, lines)
    rows = execute(
        tmp_path,
        "SELECT policy, checkpoint_digest, task, seed, success FROM evaluation_episode",
    )
    assert rows == [
        ("candidate", record.candidate, "push", 1, 1),
        ("baseline", record.baseline, "push", 1, 0),
    ]


def test_every_look_of_a_gate_is_kept(ledger, tmp_path):
    ledger.commit_stage(start(ledger, stage="gate"), comparison_record())
    rows = execute(
        tmp_path,
        "SELECT cycle, look, pairs, wins, losses, p_value, p_worse, log_e, low, high, power "
        "FROM gate_look",
    )
    assert rows == [(0, 1, 4, 3, 1, 0.3, 0.9, 0.5, -0.4, 0.9, 0.5)]
