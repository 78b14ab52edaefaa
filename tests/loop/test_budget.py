"""What is spent, and which limit is reached."""

import pytest

from lefleet.loop.budget import Spent, reached, spent, would_exceed
from lefleet.records import Budgets, CompareRequest, EvaluateRequest, ExpertDemos
from tests.loop.states import cycle, state

NOTHING = Spent(0.0, 0.0, 0, 0)
HUGE = Spent(1e9, 1e9, 10**9, 10**9)


def test_a_run_that_has_done_nothing_has_spent_time_only():
    assert spent(state(), wall_s=5.0) == Spent(5.0, 0.0, 0, 0)


def test_kept_episodes_of_demonstrations_and_of_policies_are_counted():
    now = state(cycle(0, "collect", "improve"), cycle(1, "collect"))
    assert spent(now, 0.0).collected_episodes == 2 + 1 + 2


def test_episodes_of_candidate_and_baseline_are_counted():
    now = state(cycle(0, "evaluate"), cycle(1, "evaluate", "gate"))
    assert spent(now, 0.0).evaluation_episodes == 4 + 4 + 8


def test_the_stage_that_is_running_counts():
    assert spent(state(device_seconds=10.0), 0.0, running_s=5.0).device_s == 15.0


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
