"""What is used, which limit is reached, and when a stage is tried again."""

import pytest

from lefleet.ledger import AttemptRow
from lefleet.loop.limits import (
    Usage,
    attempts_used,
    backoff_s,
    device_hours,
    reached,
    usage,
    would_exceed,
)
from lefleet.records import Budgets, CompareRequest, EvaluateRequest, ExpertDemos
from tests.loop.states import cycle, state

NOTHING = Usage(0.0, 0.0, 0, 0, 0)
HUGE = Usage(1e9, 1e9, 10**9, 10**9, 10**9)


def test_a_run_that_has_done_nothing_has_used_time_only():
    assert usage(state(), wall_s=5.0) == Usage(5.0, 0.0, 0, 0, 0)


def test_kept_episodes_of_demonstrations_and_of_policies_are_counted():
    now = state(cycle(0, "collect", "improve"), cycle(1, "collect"))
    assert usage(now, 0.0).collected_episodes == 2 + 1 + 2


def test_episodes_of_candidate_and_baseline_are_counted():
    now = state(cycle(0, "evaluate"), cycle(1, "evaluate", "gate"))
    assert usage(now, 0.0).evaluation_episodes == 4 + 4 + 8


def test_the_stage_that_is_running_counts():
    assert usage(state(device_seconds=10.0), 0.0, running_s=5.0).device_s == 15.0


@pytest.mark.parametrize(
    ("limit", "used"),
    [
        ({"wall_hours": 2.0}, {"wall_s": 7200.0}),
        ({"device_hours": 0.5}, {"device_s": 1800.0}),
        ({"collected_episodes": 10}, {"collected_episodes": 10}),
        ({"evaluation_episodes": 7}, {"evaluation_episodes": 7}),
    ],
    ids=lambda value: next(iter(value)),
)
def test_a_limit_is_reached_when_all_of_it_is_used(limit, used):
    (name,), (field, value) = limit, *used.items()
    assert name in reached(Budgets(**limit), NOTHING._replace(**used))
    assert reached(Budgets(**limit), HUGE._replace(**{field: value - 1})) == ""


def test_no_limit_is_never_reached():
    assert reached(Budgets(), HUGE) == ""


GATE = CompareRequest(checkpoint="c", baseline="b", max_pairs=15)
BLOCK = EvaluateRequest(checkpoint="c", episodes_per_task=5)


@pytest.mark.parametrize(("request_", "fits"), [(GATE, 30), (BLOCK, 15)], ids=["gate", "block"])
def test_an_evaluation_begins_only_if_all_of_it_fits(request_, fits):
    used = NOTHING._replace(evaluation_episodes=100)
    assert would_exceed(Budgets(evaluation_episodes=100 + fits), used, request_, tasks=3) == ""
    words = would_exceed(Budgets(evaluation_episodes=99 + fits), used, request_, tasks=3)
    assert f"does not hold {fits} more after 100" in words


def test_without_a_limit_every_evaluation_fits():
    assert would_exceed(Budgets(), HUGE, GATE, tasks=3) == ""


def test_other_stages_are_not_held_back():
    assert would_exceed(Budgets(evaluation_episodes=1), HUGE, ExpertDemos(), tasks=3) == ""


def attempts(words: str) -> list[AttemptRow]:
    """Attempts at one stage, as `state` or `state+what it had recorded at its end`; the last one
    ended at second 100."""
    made = []
    for number, word in enumerate(words.split(), 1):
        state, _, amount = word.partition("+")
        request = ExpertDemos()
        row = (number, "r", 0, "train", number, state, request, None, "", 0.0, 100.0)
        made.append(AttemptRow(*row, int(amount or 0), 0.0))
    return made


@pytest.mark.parametrize(
    ("made", "after", "used"),
    [
        ("", 0, 0),
        ("failed", 0, 1),
        ("failed killed failed", 0, 3),
        ("killed+1 killed+2 killed+3", 0, 0),
        ("killed+1 killed+1 killed+2", 0, 1),
        ("failed+5 failed+5 failed+5", 0, 2),
        ("failed+200 killed+0 killed+100", 0, 2),
        ("gone cancelled failed", 0, 1),
        ("failed failed failed", 2, 1),
        ("failed+5 failed+5", 1, 1),
    ],
)
def test_an_attempt_counts_unless_it_recorded_something_new(made, after, used):
    assert attempts_used(attempts(made), after, "failed", "killed") == used


@pytest.mark.parametrize(
    ("made", "after", "now", "wait"),
    [
        ("", 0, 100.0, 0.0),
        ("killed", 0, 100.0, 0.0),
        ("killed killed", 0, 100.0, 2.0),
        ("killed gone killed", 0, 100.0, 4.0),
        ("killed+1 killed+2 killed+3 killed+4", 0, 100.0, 8.0),
        ("killed " * 20, 0, 100.0, 30.0),
        ("killed killed failed", 0, 100.0, 0.0),
        ("killed killed failed killed", 0, 100.0, 0.0),
        ("killed killed killed", 2, 100.0, 0.0),
        ("killed killed", 0, 101.5, 0.5),
        ("killed killed", 0, 102.0, 0.0),
        ("killed killed", 0, 50.0, 0.0),
    ],
)
def test_repeated_kills_are_followed_by_a_growing_wait(made, after, now, wait):
    assert backoff_s(attempts(made), after, now) == wait


def attempt_on(
    device: str | None,
    stage: str,
    started_at: float,
    ended_at: float | None,
    waited_s: float = 0.0,
):
    made = ExpertDemos() if device is None else EvaluateRequest(checkpoint="c", device=device)
    state = "running" if ended_at is None else "committed"
    times = (started_at, ended_at, 0, waited_s)
    return AttemptRow(1, "r", 0, stage, 1, state, made, None, "", *times)


def test_hours_are_counted_by_device_and_stages_without_one_use_the_cpu():
    attempts = [
        attempt_on(None, "collect", 0.0, 1800.0),
        attempt_on("cuda", "train", 1800.0, 9000.0),
        attempt_on("cuda", "evaluate", 9000.0, None),
        attempt_on("cpu", "gate", 9000.0, 9900.0),
        attempt_on("cuda", "propose", 0.0, 3600.0),
    ]
    hours = device_hours(attempts, now=10800.0)
    assert hours == {"cuda": 2.5, "cpu": 0.75}
    assert list(hours) == ["cuda", "cpu"]


def test_time_in_a_queue_is_not_time_on_a_device():
    done = attempt_on("cuda", "train", 0.0, 3600.0, waited_s=1800.0)
    running = attempt_on("cuda", "evaluate", 3600.0, None, waited_s=900.0)
    assert device_hours([done, running], now=7200.0) == {"cuda": 0.5 + 0.75}
    assert (done.worked_s(), running.worked_s()) == (1800.0, 0.0)
