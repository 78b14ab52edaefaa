"""A proposal, whoever made it, ends within its limits."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.models.clamp import clamp, has_choice, obstacle, one_line
from lefleet.records import Proposal, ProposalLimits

TASKS = ("push", "pick-place", "door-open")


def limits(episodes=30, floor=2, ceiling=20, tasks=TASKS, actions=("demonstrations",)):
    return ProposalLimits(
        episodes=episodes, floor=floor, ceiling=ceiling, tasks=tasks, actions=actions
    )


def proposal(episodes, action="demonstrations", why="because"):
    return Proposal(cycle=1, action=action, episodes=episodes, source="schedule", why=why)


def clamped(asked, **kind):
    return clamp(proposal(asked), limits(**kind)).episodes


def test_a_proposal_within_its_limits_stays_as_it_is():
    asked = proposal({"push": 10, "pick-place": 10, "door-open": 10})
    assert clamp(asked, limits()) == asked


def test_numbers_are_raised_to_the_floor_and_lowered_to_the_ceiling():
    asked = {"push": -5, "pick-place": 10**9, "door-open": 8}
    assert clamped(asked) == {"push": 2, "pick-place": 20, "door-open": 8}


def test_a_task_that_is_not_named_gets_the_floor():
    assert clamped({"push": 20, "door-open": 8}) == {"push": 20, "pick-place": 2, "door-open": 8}


def test_too_many_in_all_shrink_in_proportion_above_the_floor():
    asked = {"push": 20, "pick-place": 20, "door-open": 2}
    assert clamped(asked, episodes=24) == {"push": 11, "pick-place": 11, "door-open": 2}


def test_too_few_in_all_grow_in_proportion_above_the_floor():
    asked = {"push": 3, "pick-place": 5, "door-open": 2}
    assert clamped(asked, episodes=22) == {"push": 6, "pick-place": 14, "door-open": 2}


def test_what_one_task_cannot_take_goes_to_the_others():
    assert clamped({"push": 20}) == {"push": 20, "pick-place": 5, "door-open": 5}


def test_of_equal_remainders_the_first_is_rounded_up():
    asked = dict.fromkeys(TASKS, 20)
    assert clamped(asked, episodes=10) == {"push": 4, "pick-place": 3, "door-open": 3}


def test_a_sum_below_all_floors_lowers_them():
    assert clamped({}, episodes=4) == {"push": 2, "pick-place": 1, "door-open": 1}


def test_a_run_with_a_dataset_of_its_own_collects_nothing():
    assert clamped({}, tasks=(), episodes=0) == {}


@given(
    asked=st.dictionaries(st.sampled_from(TASKS), st.integers(-(10**20), 10**20)),
    episodes=st.integers(0, 1000),
    floor=st.integers(0, 1000),
    ceiling=st.integers(0, 1000),
)
def test_every_proposal_ends_within_every_limit(asked, episodes, floor, ceiling):
    given_limits = limits(episodes, floor, ceiling)
    found = clamp(proposal(asked), given_limits).episodes
    assert tuple(found) == TASKS
    assert sum(found.values()) == min(episodes, ceiling * len(TASKS))
    assert max(found.values()) <= ceiling
    assert min(found.values()) >= min(floor, ceiling, episodes // len(TASKS))
    assert clamp(proposal(found), given_limits).episodes == found


@given(st.lists(st.integers(2, 20), min_size=3, max_size=3))
def test_a_task_that_asks_for_more_never_gets_fewer(amounts):
    found = list(clamped(dict(zip(TASKS, amounts, strict=True))).values())
    for one, other in itertools.permutations(range(3), 2):
        assert amounts[one] <= amounts[other] or found[one] >= found[other]


@pytest.mark.parametrize(
    ("kind", "choice"),
    [
        ({}, True),
        ({"floor": 10}, False),
        ({"tasks": ("push",)}, False),
        ({"tasks": (), "episodes": 0}, False),
        ({"tasks": (), "episodes": 0, "actions": ("demonstrations", "harvest")}, True),
    ],
    ids=["split", "floors take all", "one task", "own dataset", "actions"],
)
def test_a_choice_is_between_proposals_that_differ(kind, choice):
    assert has_choice(limits(**kind)) is choice


def test_another_action_is_an_obstacle():
    found = obstacle(proposal({}, action="harvest"), limits())
    assert found == "the action 'harvest' is not allowed"


def test_an_unknown_task_is_an_obstacle():
    assert obstacle(proposal({"fly": 1}), limits()) == "the task 'fly' is not one of the run's"


def test_what_only_needs_other_numbers_has_no_obstacle():
    assert obstacle(proposal({"push": 10**9}), limits()) == ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("  two\n\nlines\t", "two lines"),
        ("\x1b[31mred\x1b[0m \x9b2J \u202eback\u200b", "[31mred [0m 2J back"),
        ("x" * 300, "x" * 199 + "…"),
        ("\x00" * 10**6, ""),
    ],
)
def test_a_reason_is_one_printable_line(text, line):
    assert one_line(text) == line
