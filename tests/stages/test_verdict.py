"""Pairs to a verdict: all together and task by task."""

import pytest

from lefleet.stages.verdict import Judge, Outcome, Subject, comparison
from lefleet.stats import GateRule

SUBJECT = Subject("a", "b", "", "", 0, 2, "episodes.jsonl", "")


def judged(outcomes, scope="pooled", **rule):
    tasks = {task: sum(one[0] == task for one in outcomes) for task, *_ in outcomes}
    judge = Judge(GateRule(max_pairs=len(outcomes), min_effect=0.2, **rule), tasks)
    for task, ours, theirs in outcomes:
        if not judge.decided:
            judge.observe(Outcome(task, ours, theirs, float(ours), float(theirs)))
    return comparison(judge, SUBJECT, scope, 0.2)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"), [(True, False, "better"), (False, True, "worse")]
)
def test_a_clear_difference_is_seen_early_on_either_side(ours, theirs, verdict):
    record = judged([("push", ours, theirs)] * 60)
    assert (record.verdict, record.ended, record.side) == (verdict, verdict, verdict)
    assert record.pairs < 20
    assert record.p_value <= record.alpha
    assert record.e_value > 1 / record.alpha
    assert record.looks[-1].pairs == record.pairs


def test_swapping_the_two_mirrors_everything():
    outcomes = [("push", number % 3 > 0, number % 4 == 0) for number in range(40)]
    there = judged(outcomes)
    back = judged([(task, theirs, ours) for task, ours, theirs in outcomes])
    assert (back.verdict, back.side) == ("worse", "worse")
    assert (there.verdict, there.wins, there.losses) == ("better", back.losses, back.wins)
    assert (there.pairs, there.p_value) == (back.pairs, back.p_value)
    assert there.e_value == pytest.approx(back.e_value)
    assert there.difference == -back.difference


def test_equal_policies_are_not_told_apart():
    record = judged([("push", True, True)] * 100)
    assert (record.verdict, record.ended) == ("inconclusive", "futile")
    assert (record.e_value, record.p_value, record.difference) == (1.0, 1.0, 0.0)


REGRESSING = [
    one
    for _ in range(40)
    for one in (
        *[(f"good{number}", True, False) for number in range(3)],
        ("bad", False, True),
    )
]


def test_a_task_that_regresses_vetoes_only_where_it_is_asked_for():
    # A level that the pooled pairs reach only when the bad task has been seen often enough.
    pooled = judged(REGRESSING, alpha=1e-9)
    vetoed = judged(REGRESSING, alpha=1e-9, scope="per_task")
    assert (pooled.verdict, pooled.ended) == ("better", "better")
    assert (vetoed.verdict, vetoed.ended) == ("inconclusive", "vetoed")
    assert vetoed.per_task["bad"].is_worse
    assert not vetoed.per_task["good0"].is_worse


def test_every_task_has_its_rates():
    record = judged([("push", True, False), ("reach", False, False)] * 3)
    assert (record.per_task["push"].wins, record.per_task["reach"].wins) == (3, 0)
    assert record.per_task["reach"].candidate.rate == 0.0
    assert record.tasks == ("push", "reach")
