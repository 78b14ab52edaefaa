"""Pairs and numbers that a gate is given, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.errors import BadInput
from lefleet.stats import Pair, match_trials, progress_of, success_of


@given(st.integers(-1, 1), st.floats(-1, 1))
def test_mirroring_a_pair_twice_gives_it_back(difference, gain):
    pair = Pair(difference, gain)
    assert pair.mirrored == (-difference, -gain)
    assert pair.mirrored.mirrored == pair


@pytest.mark.parametrize("value", [0, 1, True, 0.0])
def test_a_success_is_0_or_1(value):
    assert success_of(value, 1, "a") == int(value)


@pytest.mark.parametrize("value", [2, -1, 0.5, float("nan"), float("inf")])
def test_another_success_is_refused_by_line_and_field(value):
    with pytest.raises(BadInput, match=r"line 3, b: success must be 0 or 1") as refusal:
        success_of(value, 3, "b")
    assert "for values in between use --metric progress" in refusal.value.remedy


@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan"), float("inf")])
def test_progress_outside_its_range_is_refused_by_line_and_field(value):
    with pytest.raises(BadInput, match=r"line 2, a: progress must lie"):
        progress_of(value, 2, "a")


def test_single_trials_are_matched_by_order_whichever_policy_ran_first():
    assert match_trials([*enumerate("abba", 1)]) == [(1, 2), (4, 3)]


@given(st.lists(st.sampled_from(["ab", "ba"])))
def test_alternating_trials_all_find_a_partner(turns):
    matched = match_trials([*enumerate("".join(turns), 1)])
    assert sorted(line for pair in matched for line in pair) == list(range(1, 2 * len(turns) + 1))


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ("abc", "line 3, policy: must be a or b"),
        ("aba", "line 3, policy: a has 2"),
        ("b", "line 1"),
    ],
)
def test_a_trial_without_a_partner_is_named(policies, words):
    with pytest.raises(BadInput, match=words):
        match_trials([*enumerate(policies, 1)])
