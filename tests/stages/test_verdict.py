"""Pairs to a verdict: their order, all together and task by task."""

from collections import Counter
from itertools import batched

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.errors import StageFailed
from lefleet.stages.verdict import (
    ComparisonSource,
    Judge,
    PairedEpisodes,
    PairOutcome,
    Trial,
    comparison,
    pair_order,
)
from lefleet.stats import GateRule
from tests.samples import episode
from tests.stats.outcomes import conclusion

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
    assert p_value <= record.gate.alpha_better
    assert e_value > 1 / record.gate.alpha_better
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
    pooled = judged(REGRESSING, alpha_better=alpha, alpha_worse=alpha)
    vetoed = judged(REGRESSING, alpha_better=alpha, alpha_worse=alpha, scope="per_task")
    assert (pooled.gate.verdict, pooled.gate.ended) == ("better", "better")
    assert (vetoed.gate.verdict, vetoed.gate.ended) == ("inconclusive", "vetoed")
    assert vetoed.gate.worse_tasks == ("bad",)


def test_better_takes_all_pairs_where_no_task_may_become_worse():
    outcomes = [("push", True, False), ("reach", True, True)] * 20
    record = judged(outcomes, scope="per_task")
    assert (record.gate.verdict, record.gate.pairs) == ("better", judged(outcomes).gate.pairs)
    assert sum(task.pairs for task in record.per_task.values()) == 40


def test_an_effect_too_small_to_show_leaves_the_verdict_and_no_fixed_size():
    judge = Judge(GateRule(max_pairs=5, min_effect=1e-6), {"push": 5})
    for _ in range(5):
        judge.observe(PairOutcome("push", True, False, 1.0, 0.0))
    assert comparison(judge, SOURCE).gate.fixed_pairs is None


def test_every_task_has_its_rates():
    record = judged([("push", True, False), ("reach", False, False)] * 3)
    assert (record.per_task["push"].wins, record.per_task["reach"].wins) == (3, 0)
    assert record.per_task["reach"].candidate.rate == 0.0
    assert tuple(record.per_task) == ("push", "reach")


TASKS = ("push", "reach", "door-open")


@given(st.integers(1, 200), st.integers(1, 3), st.integers(0, 10**9))
def test_every_trial_is_new_and_every_beginning_is_balanced(pairs, tasks, seed):
    order = pair_order(TASKS[:tasks], seed, pairs)
    assert len(order) == len(set(order)) == pairs
    assert min(trial.seed for trial in order) == seed
    for count in range(tasks, pairs, tasks):
        assert set(Counter(trial.task for trial in order[:count]).values()) == {count // tasks}


def test_tasks_are_shuffled_within_each_seed_and_always_the_same_way():
    order = pair_order(TASKS, 7, 300)
    assert order == pair_order(TASKS, 7, 300)
    blocks = {tuple(trial.task for trial in block) for block in batched(order, 3)}
    assert len(blocks) == 6


ORDER = pair_order(("push",), 0, 40)
RULE = GateRule(max_pairs=40, min_effect=0.3)


def pair(trial: Trial, ours: bool, theirs: bool, start: str = ""):
    return [
        episode(trial.task, trial.seed, success=ours, start=start),
        episode(trial.task, trial.seed, success=theirs, policy="baseline", start=start),
    ]


@given(st.randoms(), st.lists(st.tuples(st.booleans(), st.booleans()), min_size=40, max_size=40))
def test_the_verdict_does_not_depend_on_which_episode_ends_first(chance, outcomes):
    episodes = [
        one for trial, found in zip(ORDER, outcomes, strict=True) for one in pair(trial, *found)
    ]
    in_order, shuffled = PairedEpisodes(ORDER, RULE), PairedEpisodes(ORDER, RULE)
    for one in episodes:
        in_order.add(one)
    for one in chance.sample(episodes, len(episodes)):
        shuffled.add(one)
    assert shuffled.judge.outcomes == in_order.judge.outcomes
    assert conclusion(shuffled.judge.gate) == conclusion(in_order.judge.gate)


def test_a_pair_counts_when_all_before_it_are_complete():
    evidence = PairedEpisodes(ORDER, RULE)
    for one in pair(ORDER[1], True, False):
        evidence.add(one)
    assert evidence.judge.outcomes == []
    assert evidence.has("baseline", ORDER[1])
    for one in pair(ORDER[0], True, False):
        evidence.add(one)
    assert len(evidence.judge.outcomes) == 2


def test_nothing_counts_after_the_decision():
    evidence = PairedEpisodes(ORDER, RULE)
    for trial in ORDER:
        for one in pair(trial, True, False):
            evidence.add(one)
    assert evidence.judge.gate.state == "better"
    assert len(evidence.judge.outcomes) < len(ORDER)


def test_seeds_that_begin_the_same_are_refused():
    evidence = PairedEpisodes(ORDER, RULE)
    evidence.add(episode("push", 1, start="here"))
    with pytest.raises(StageFailed, match="seeds 1 and 2"):
        evidence.add(episode("push", 2, start="here"))


def test_a_pair_that_begins_differently_is_refused():
    evidence = PairedEpisodes(ORDER, RULE)
    evidence.add(episode("push", 0, start="here"))
    with pytest.raises(StageFailed, match="began differently"):
        evidence.add(episode("push", 0, start="there", policy="baseline"))
