"""Pairs to a verdict: all together and task by task."""

import pytest

from lefleet.stages.verdict import ComparisonSource, Judge, PairOutcome, comparison
from lefleet.stats import GateRule

SOURCE = ComparisonSource("a", "b", "", "", 0, 2, "episodes.jsonl", "")


def judged(outcomes, scope="pooled", **rule):
    tasks = {task: sum(one[0] == task for one in outcomes) for task, *_ in outcomes}
    judge = Judge(GateRule(max_pairs=len(outcomes), min_effect=0.2, **rule), tasks, scope)
    for task, ours, theirs in outcomes:
        if not judge.decided:
            judge.observe(PairOutcome(task, ours, theirs, float(ours), float(theirs)))
    return comparison(judge, SOURCE)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"), [(True, False, "better"), (False, True, "worse")]
)
def test_a_clear_difference_is_seen_early_on_either_side(ours, theirs, verdict):
    record = judged([("push", ours, theirs)] * 60)
    assert (record.gate.verdict, record.gate.ended) == (verdict, verdict)
    assert record.gate.pairs < 20
    evidence = {
        "better": (record.gate.p_value, record.gate.e_value),
        "worse": (record.gate.p_worse, record.gate.e_worse),
    }
    p_value, e_value = evidence.pop(verdict)
    assert p_value <= record.gate.alpha
    assert e_value > 1 / record.gate.alpha
    assert next(iter(evidence.values()))[0] == 1.0
    assert record.looks[-1].pairs == record.gate.pairs


def test_swapping_the_two_mirrors_everything():
    outcomes = [("push", number % 3 > 0, number % 4 == 0) for number in range(40)]
    there = judged(outcomes)
    back = judged([(task, theirs, ours) for task, ours, theirs in outcomes])
    assert back.gate.verdict == "worse"
    assert (there.gate.verdict, there.gate.wins, there.gate.losses) == (
        "better",
        back.gate.losses,
        back.gate.wins,
    )
    assert (there.gate.pairs, there.gate.p_value, there.gate.p_worse) == (
        back.gate.pairs,
        back.gate.p_worse,
        back.gate.p_value,
    )
    assert (there.gate.e_value, there.gate.e_worse) == pytest.approx(
        (back.gate.e_worse, back.gate.e_value)
    )
    assert there.gate.difference == -back.gate.difference


def test_equal_policies_are_not_told_apart():
    record = judged([("push", True, True)] * 100)
    assert (record.gate.verdict, record.gate.ended) == ("inconclusive", "futile")
    assert (record.gate.e_value, record.gate.p_value, record.gate.difference) == (1.0, 1.0, 0.0)


REGRESSING = [
    one
    for _ in range(40)
    for one in (
        *[(f"good{number}", True, False) for number in range(3)],
        ("bad", False, True),
    )
]


@pytest.mark.parametrize("alpha", [0.05, 0.03, 0.001])
def test_a_task_that_regresses_vetoes_only_where_it_is_asked_for(alpha):
    pooled = judged(REGRESSING, alpha=alpha)
    vetoed = judged(REGRESSING, alpha=alpha, scope="per_task")
    assert (pooled.gate.verdict, pooled.gate.ended) == ("better", "better")
    assert (vetoed.gate.verdict, vetoed.gate.ended) == ("inconclusive", "vetoed")
    assert vetoed.gate.worse_tasks == ("bad",)


def test_better_takes_all_pairs_where_no_task_may_become_worse():
    outcomes = [("push", True, False), ("reach", True, True)] * 20
    record = judged(outcomes, scope="per_task")
    assert (record.gate.verdict, record.gate.pairs) == ("better", judged(outcomes).gate.pairs)
    assert sum(task.pairs for task in record.per_task.values()) == 40


def test_an_effect_that_nobody_can_show_is_no_reason_to_lose_a_verdict():
    judge = Judge(GateRule(max_pairs=5, min_effect=1e-6), {"push": 5})
    for _ in range(5):
        judge.observe(PairOutcome("push", True, False, 1.0, 0.0))
    assert comparison(judge, SOURCE).gate.fixed_pairs is None


def test_every_task_has_its_rates():
    record = judged([("push", True, False), ("reach", False, False)] * 3)
    assert (record.per_task["push"].wins, record.per_task["reach"].wins) == (3, 0)
    assert record.per_task["reach"].candidate.rate == 0.0
    assert tuple(record.per_task) == ("push", "reach")
