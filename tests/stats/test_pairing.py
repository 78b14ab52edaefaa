"""Pairs from outcomes, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.errors import BadInput
from lefleet.stats import Pair, Progress, match_trials, read_pairs


def test_success_alone():
    assert read_pairs([1, 0, True, 0.0], [0, 1, 1, 0]) == (
        Pair(1, 1.0),
        Pair(-1, -1.0),
        Pair(0, 0.0),
        Pair(0, 0.0),
    )


def test_success_and_progress():
    pairs = read_pairs([1, 0], [0, 0], Progress([1.0, 0.25], [0.5, 0.75]))
    assert pairs == (Pair(1, 0.5), Pair(0, -0.5))


def test_no_rows_are_no_pairs():
    assert read_pairs([], []) == ()


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_swapping_the_columns_mirrors_every_pair(rows):
    ours, theirs = [row[0] for row in rows], [row[1] for row in rows]
    mirrored = tuple(pair.mirrored for pair in read_pairs(theirs, ours))
    assert read_pairs(ours, theirs) == mirrored


@pytest.mark.parametrize("value", [2, -1, 0.5, float("nan"), float("inf")])
def test_a_success_that_is_none_is_refused_by_row_and_field(value):
    with pytest.raises(BadInput, match=r"row 3, baseline: success must be 0 or 1"):
        read_pairs([1, 0, 1], [0, 1, value])


@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan"), float("inf")])
def test_progress_outside_its_range_is_refused_by_row_and_field(value):
    with pytest.raises(BadInput, match=r"row 2, candidate_progress: progress must lie"):
        read_pairs([1, 1], [0, 1], Progress([0.5, value], [0.5, 0.5]))


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(BadInput, match="candidate 2, baseline 1"):
        read_pairs([1, 0], [1])


def test_every_refusal_says_what_to_do():
    with pytest.raises(BadInput) as refusal:
        read_pairs([3], [0])
    assert "Write 1 for a success" in refusal.value.remedy


def test_single_trials_are_matched_by_order_whoever_ran_first():
    assert match_trials([*enumerate("abba", 1)]) == [(1, 2), (4, 3)]


@given(st.lists(st.sampled_from(["ab", "ba"])))
def test_alternating_trials_all_find_a_partner(turns):
    matched = match_trials([*enumerate("".join(turns), 1)])
    assert sorted(row for pair in matched for row in pair) == list(range(1, 2 * len(turns) + 1))


@pytest.mark.parametrize(
    ("policies", "words"),
    [("abc", "row 3, policy: must be a or b"), ("aba", "row 3, policy: a has 2"), ("b", "row 1")],
)
def test_a_trial_without_a_partner_is_named(policies, words):
    with pytest.raises(BadInput, match=words):
        match_trials([*enumerate(policies, 1)])
