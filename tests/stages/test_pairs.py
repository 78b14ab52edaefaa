"""The order of pairs, and the evidence that they give."""

from collections import Counter
from itertools import batched

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.errors import StageFailed
from lefleet.stages.pairs import PairedEpisodes, Trial, pair_order
from lefleet.stats import GateRule
from tests.samples import episode
from tests.stats.outcomes import conclusion

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
RULE = GateRule(alpha=0.05, max_pairs=40, min_effect=0.3)


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
