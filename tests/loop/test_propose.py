"""The deterministic proposal: how demonstrations are split, what may be chosen, and the words."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.loop.history import Experience
from lefleet.loop.propose import (
    MOST_PER_TASK,
    TaskEvidence,
    least_per_task,
    limits,
    possible_actions,
    propose,
    split_by_failure,
    split_uniform,
    task_evidence,
)
from lefleet.loop.requests import PER_CYCLE, demonstrations
from lefleet.loop.state import CycleState, RunState
from lefleet.models.clamp import clamp
from lefleet.records import (
    Budgets,
    DatasetSource,
    ExpertGrowth,
    ImprovePlan,
    PolicyResult,
    ProposePlan,
    Rate,
)
from lefleet.stages.collect import max_attempts
from lefleet.stats import exact_interval
from tests.loop.states import config, decision, digest, origin, record, state
from tests.samples import evaluation_record

EASY3 = ("push", "pick-place", "door-open")


def rate(successes: int, episodes: int) -> Rate:
    share = successes / episodes
    interval = exact_interval(successes, episodes)
    return Rate(successes=successes, episodes=episodes, rate=share, interval=interval)


def evidence(**known: tuple[int, int] | None) -> list[TaskEvidence]:
    return [TaskEvidence(task, rate(*seen) if seen else None) for task, seen in known.items()]


def result(number: int, **per_task: Rate) -> PolicyResult:
    """Of the checkpoint of a cycle."""
    rates = {name.replace("_", "-"): one for name, one in per_task.items()}
    return PolicyResult(
        checkpoint=f"/{digest(number)}",
        digest=digest(number),
        overall=rate(
            sum(one.successes for one in rates.values()),
            sum(one.episodes for one in rates.values()),
        ),
        per_task=rates,
        mean_progress=0.5,
        mean_length=10.0,
    )


def evaluated(number: int, *, outcome: str = "", blessed: int | None = None, **per_task: Rate):
    """A decided cycle."""
    records = {
        "collect": record(number, "collect"),
        "train": record(number, "train"),
        "evaluate": evaluation_record(result=result(number, **per_task)),
    }
    holds = "" if blessed is None else digest(blessed)
    return CycleState(number, records, decision(number, outcome or "iterate", holds))


def run(*cycles: CycleState, **changes) -> RunState:
    """A run on easy3, with as many demonstrations of each task where nothing else is said."""
    return state(*cycles, of=config(**{"tasks": ("easy3",), "propose": UNIFORM} | changes))


UNIFORM = ProposePlan(split="uniform")
UNEQUAL = {"push": rate(18, 20), "pick_place": rate(5, 20), "door_open": rate(20, 20)}


# The split


@pytest.mark.parametrize(
    ("seen", "weight"),
    [(None, 1.0), ((0, 20), 1.0), ((10, 20), 0.728), ((20, 20), 0.168), ((200, 200), 0.018)],
)
def test_a_task_weighs_as_much_as_the_largest_failure_rate_that_is_not_ruled_out(seen, weight):
    (one,) = evidence(push=seen)
    assert one.weight == pytest.approx(weight, abs=0.001)


def test_a_task_of_which_less_is_known_weighs_more_at_the_same_rate():
    few, many = evidence(few=(5, 10), many=(50, 100))
    assert few.weight > many.weight


def test_a_uniform_split_gives_what_cannot_be_divided_to_the_first_tasks():
    assert split_uniform(11, ("a", "b", "c")) == {"a": 4, "b": 4, "c": 3}


def test_a_task_that_fails_gets_more():
    known = evidence(push=(18, 20), pick=(5, 20), door=(20, 20))
    assert split_by_failure(24, known, 0.5) == {"push": 5, "pick": 15, "door": 4}


def test_equal_weights_give_the_uniform_split():
    known = evidence(a=(3, 9), b=(3, 9), c=(3, 9))
    assert split_by_failure(11, known, 0.5) == split_uniform(11, ("a", "b", "c"))


def test_a_floor_of_1_gives_the_uniform_split():
    known = evidence(a=(0, 20), b=(20, 20), c=(20, 20))
    assert split_by_failure(12, known, 1.0) == {"a": 4, "b": 4, "c": 4}


def test_weights_of_0_are_equal_weights():
    certain = Rate(successes=4, episodes=4, rate=1.0, interval=(1.0, 1.0))
    known = [TaskEvidence("a", certain), TaskEvidence("b", certain)]
    assert split_by_failure(4, known, 0.5) == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("total", "tasks", "floor", "least"),
    [
        (24, 3, 0.5, 4),
        (15, 3, 0.5, 3),
        (9, 3, 0.0, 1),
        (9, 3, 1.0, 3),
        (30, 3, 0.3, 3),
        (2, 3, 0.5, 0),
    ],
)
def test_the_floor_is_a_share_of_the_uniform_split_and_at_least_1(total, tasks, floor, least):
    assert least_per_task(total, tasks, floor) == least


tasks_with_evidence = st.lists(
    st.integers(1, 60).flatmap(
        lambda episodes: st.none() | st.tuples(st.integers(0, episodes), st.just(episodes))
    ),
    min_size=1,
    max_size=8,
).map(lambda seen: evidence(**{f"task{number}": one for number, one in enumerate(seen)}))


@given(known=tasks_with_evidence, total=st.integers(0, 200), floor=st.floats(0.0, 1.0))
def test_a_split_adds_up_and_keeps_to_the_floor(known, total, floor):
    split = split_by_failure(total, known, floor)
    assert sum(split.values()) == total
    assert list(split) == [one.task for one in known]
    least = least_per_task(total, len(known), floor)
    assert min(split.values()) >= least
    if total >= len(known):
        assert least >= 1
        uniform = Fraction(total, len(known))
        assert least >= min(math.ceil(uniform * Fraction(str(floor))), math.floor(uniform))


@given(known=tasks_with_evidence, total=st.integers(0, 200), floor=st.floats(0.0, 1.0))
def test_a_task_with_a_larger_weight_never_gets_fewer(known, total, floor):
    split = split_by_failure(total, known, floor)
    for one in known:
        for other in known:
            if one.weight > other.weight:
                assert split[one.task] >= split[other.task]


@given(known=tasks_with_evidence, total=st.integers(0, 200), floor=st.floats(0.0, 1.0))
def test_a_task_above_the_floor_is_less_than_one_from_its_share(known, total, floor):
    split = split_by_failure(total, known, floor)
    least = least_per_task(total, len(known), floor)
    above = [one for one in known if split[one.task] > least]
    # Those that the floor lifts can only take from the others.
    for one in above:
        share = total * one.weight / sum(each.weight for each in known)
        assert split[one.task] < share + 1


# The evidence


def test_before_the_first_evaluation_nothing_is_known():
    assert task_evidence(run()) == [TaskEvidence(task, None) for task in EASY3]


def test_the_evidence_is_about_the_blessed_checkpoint_and_not_the_newest():
    weak = dict.fromkeys(UNEQUAL, rate(0, 20))
    now = run(
        evaluated(0, outcome="baseline", blessed=0, **UNEQUAL), evaluated(1, blessed=0, **weak)
    )
    assert [one.rate for one in task_evidence(now)] == list(UNEQUAL.values())


def test_without_a_blessed_checkpoint_the_newest_one_tells():
    zero = dict.fromkeys(UNEQUAL, rate(0, 20))
    now = run(evaluated(0, **zero), evaluated(1, **UNEQUAL))
    assert [one.rate for one in task_evidence(now)] == list(UNEQUAL.values())


def test_a_run_from_another_knows_what_that_one_knew():
    taken = origin(checkpoint=record(9, "train"), result=result(9, **UNEQUAL))
    now = state(of=config(tasks=("easy3",)), origin=taken)
    assert [one.rate for one in task_evidence(now)] == list(UNEQUAL.values())


# The proposal


@given(
    schedule=st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True).map(sorted),
    cycle=st.integers(0, 6),
)
def test_with_a_uniform_split_every_task_gets_what_the_schedule_says(schedule, cycle):
    growth = ExpertGrowth(episodes_per_task=tuple(schedule))
    proposed = propose(run(collect=growth), cycle, Experience())
    new = demonstrations(growth, cycle) - demonstrations(growth, cycle - 1)
    assert proposed.episodes == dict.fromkeys(EASY3, new)
    assert proposed.action == "demonstrations"


def test_the_words_of_a_uniform_split_name_the_total_and_the_number_for_each():
    proposed = propose(run(), 1, Experience())
    assert proposed.why == "18 new demonstrations, 6 of each task"
    assert (proposed.cycle, proposed.source) == (1, "schedule")


@pytest.mark.parametrize("split", ["uniform", "failure"])
def test_of_one_task_there_is_nothing_to_split(split):
    plan = ProposePlan(split=split)
    now = run(evaluated(0, push=rate(5, 20)), tasks=("push",), propose=plan)
    proposed = propose(now, 1, Experience())
    assert proposed.episodes == {"push": 6}
    assert proposed.why == "6 new demonstrations of push"


def test_a_split_by_failure_names_every_task_and_how_often_it_fails():
    now = run(
        evaluated(0, outcome="baseline", blessed=0, **UNEQUAL), propose=ProposePlan(split="failure")
    )
    proposed = propose(now, 1, Experience())
    assert proposed.episodes == {"push": 4, "pick-place": 11, "door-open": 3}
    assert proposed.why == (
        "18 new demonstrations: push 4 (fails 10%), pick-place 11 (fails 75%), "
        "door-open 3 (fails 0%)"
    )


def test_a_split_by_failure_is_uniform_until_something_was_evaluated():
    proposed = propose(run(propose=ProposePlan(split="failure")), 0, Experience())
    assert proposed.episodes == dict.fromkeys(EASY3, 2)
    assert proposed.why == "6 new demonstrations, 2 of each task, as none was evaluated yet"


def test_no_task_gets_more_than_a_cycle_has_seeds_for():
    assert max_attempts(MOST_PER_TASK) <= PER_CYCLE < max_attempts(MOST_PER_TASK + 1)
    growth = ExpertGrowth(episodes_per_task=(2000,))
    now = run(
        evaluated(0, **UNEQUAL), collect=growth, propose=ProposePlan(split="failure", floor=0.0)
    )
    proposed = propose(now, 1, Experience())
    assert proposed.episodes == dict.fromkeys(EASY3, 2000)
    assert proposed.why.endswith("2000 of each task, as there are only seeds for 2497 of one task")
    assert limits(now, 1).ceiling == MOST_PER_TASK


def test_of_many_tasks_only_those_with_the_most_are_named():
    known = {"reach": rate(0, 20), "push": rate(10, 20)}
    now = run(
        evaluated(0, **known), tasks=("mt10",), propose=ProposePlan(split="failure", floor=0.0)
    )
    proposed = propose(now, 1, Experience())
    assert proposed.why.startswith("60 new demonstrations: reach 7 (fails 100%), ")
    assert proposed.why.endswith("6 (not evaluated), 5 to 6 of each of 5 others")


def test_a_dataset_of_ones_own_is_proposed_without_numbers():
    now = run(collect=DatasetSource(repo_id="user/name"))
    proposed = propose(now, 1, Experience())
    assert proposed.episodes == {}
    assert proposed.why == "the episodes of user/name, the same in every cycle"
    assert clamp(proposed, limits(now, 1)) == proposed


@pytest.mark.parametrize(
    ("cycle", "words"),
    [
        (0, "10 episodes of each task of user/name"),
        (
            1,
            "25 episodes of each task of user/name: those of the cycle before and 15 more",
        ),
        (
            2,
            "40 episodes of each task of user/name: those of the cycle before and 15 more",
        ),
    ],
)
def test_a_proposal_says_how_much_a_growing_selection_grows(cycle, words):
    now = run(collect=DatasetSource(repo_id="user/name", episodes_per_task=(10, 25)))
    assert propose(now, cycle, Experience()).why == words


@pytest.mark.parametrize(
    ("method", "action"),
    [("none", "demonstrations"), ("harvest", "harvest"), ("correct", "corrections")],
)
def test_a_method_that_the_config_names_holds_from_the_first_cycle_on(method, action):
    now = run(improve=ImprovePlan(method=method))
    proposed = propose(now, 0, Experience())
    assert proposed.action == action
    assert limits(now, 0).actions == (action,)
    said = "" if method == "none" else f"; then {action}"
    assert proposed.why == f"6 new demonstrations, 2 of each task{said}"


def test_the_last_cycle_says_nothing_of_data_for_a_next_one():
    now = run(improve=ImprovePlan(method="correct"), budgets=Budgets(cycles=1))
    assert propose(now, 0, Experience()).why == "6 new demonstrations, 2 of each task"


AUTO = ImprovePlan(method="auto")


@pytest.mark.parametrize(
    ("successes", "possible"),
    [
        (None, ("demonstrations",)),
        (3, ("demonstrations", "corrections")),
        (4, ("demonstrations", "corrections", "harvest")),
        (20, ("demonstrations", "harvest")),
    ],
)
def test_what_is_possible_depends_on_how_often_the_blessed_policy_succeeds(successes, possible):
    cycles = []
    if successes is not None:
        cycles = [evaluated(0, outcome="baseline", blessed=0, push=rate(successes, 20))]
    assert possible_actions(run(*cycles, improve=AUTO)) == possible


def test_until_a_policy_is_blessed_nothing_else_is_possible():
    proposed = propose(run(improve=AUTO), 0, Experience())
    assert proposed.action == "demonstrations"
    assert proposed.why.endswith("; then nothing that a policy makes, as none is blessed yet")


def test_the_choice_is_explained_after_the_numbers():
    now = run(evaluated(0, outcome="baseline", blessed=0, **UNEQUAL), improve=AUTO)
    proposed = propose(now, 1, Experience())
    assert proposed.action == "corrections"
    assert proposed.why == (
        "18 new demonstrations, 6 of each task; then corrections (not tried on these tasks yet)"
    )


def test_limits_leave_each_task_its_floor():
    found = limits(run(), 1)
    assert (found.episodes, found.floor, found.ceiling, found.tasks) == (18, 3, 12, EASY3)


@given(
    successes=st.tuples(*[st.integers(0, 20)] * 3),
    floor=st.floats(0.0, 1.0),
    cycle=st.integers(1, 5),
    split=st.sampled_from(["uniform", "failure"]),
)
def test_what_is_proposed_lies_within_the_limits(successes, floor, cycle, split):
    rates = dict(zip(UNEQUAL, (rate(one, 20) for one in successes), strict=True))
    plan = ProposePlan(split=split, floor=floor)
    now = run(evaluated(0, outcome="baseline", blessed=0, **rates), improve=AUTO, propose=plan)
    proposed, allowed = propose(now, cycle, Experience()), limits(now, cycle)
    assert sum(proposed.episodes.values()) == allowed.episodes
    assert clamp(proposed, allowed).episodes == proposed.episodes
    assert proposed.action in allowed.actions
