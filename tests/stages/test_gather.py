"""Which attempts are made, and which of them are taken."""

from hypothesis import given
from hypothesis import strategies as st

from lefleet.records import AttemptCounts
from lefleet.rollouts import Demonstrate
from lefleet.stages.gather import Gathered, GatherPlan, _rounds, _take
from tests.samples import finished


def wanted(**changes) -> GatherPlan:
    values = {
        "tasks": ("push",),
        "goal": 2,
        "max_attempts": 9,
        "block": 3,
        "first_seed": 100,
        "behaviour": Demonstrate(),
    }
    return GatherPlan(**values | changes)


def seeds(lines) -> list[int]:
    return [line.seed for line in lines]


def test_the_first_round_has_as_many_attempts_as_are_wanted_and_later_ones_a_block():
    rounds = list(_rounds(wanted(goal=2, block=3, max_attempts=9)))
    assert rounds == [range(100, 102), range(102, 105), range(105, 108), range(108, 109)]


def test_the_first_round_keeps_to_the_most_attempts_too():
    assert list(_rounds(wanted(goal=5, max_attempts=3))) == [range(100, 103)]


@given(goal=st.integers(1, 30), block=st.integers(1, 30), most=st.integers(1, 200))
def test_rounds_use_every_seed_up_to_the_most_attempts_once(goal, block, most):
    rounds = _rounds(wanted(goal=goal, block=block, max_attempts=most))
    assert [seed for seeds in rounds for seed in seeds] == list(range(100, 100 + most))


def test_the_first_kept_episodes_by_seed_are_taken_however_they_arrived():
    lines = [finished(seed=3), finished(seed=1), finished(seed=2)]
    assert seeds(_take(wanted(goal=2), lines, "push")) == [1, 2]


def test_an_episode_without_labels_is_not_taken():
    lines = [finished(seed=1, labelled=0), finished(seed=2)]
    assert seeds(_take(wanted(), lines, "push")) == [2]


def test_episodes_of_other_tasks_are_not_taken():
    lines = [finished("reach", seed=1), finished("push", seed=2)]
    assert seeds(_take(wanted(), lines, "push")) == [2]


def test_interleaved_episodes_alternate_between_tasks_as_long_as_they_last():
    kept = {
        "push": [finished("push", seed) for seed in (1, 4, 6)],
        "reach": [finished("reach", 2)],
        "door-open": [],
    }
    gathered = Gathered(kept, {task: AttemptCounts(kept=0, attempted=0) for task in kept})
    order = [(one.task, one.seed) for one in gathered.interleaved()]
    assert order == [("push", 1), ("reach", 2), ("push", 4), ("push", 6)]
