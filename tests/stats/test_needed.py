"""About how many pairs would settle a comparison; benchmarks check the numbers by simulation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet.records.evaluate import MOST_NEEDED
from lefleet.stats import fixed_size, needed_pairs

SHARES = st.floats(0.02, 1.0)


def test_a_few_more_pairs_than_a_test_of_fixed_size():
    fixed = fixed_size(0.05, 0.8, 0.1, 0.3)
    assert fixed < needed_pairs(0.05, 0.1, 0.3, "success") < 1.2 * fixed


def test_no_difference_and_a_tiny_one_need_the_most():
    assert needed_pairs(0.05, 0.0, 0.3, "success") == MOST_NEEDED
    assert needed_pairs(0.05, 0.001, 0.5, "success") == MOST_NEEDED
    assert needed_pairs(0.05, 0.001, 0.001, "success") < MOST_NEEDED


@pytest.mark.parametrize("metric", ["success", "progress"])
def test_one_side_is_as_hard_to_show_as_the_other(metric):
    assert needed_pairs(0.05, 0.2, 0.4, metric) == needed_pairs(0.05, -0.2, 0.4, metric)


@settings(max_examples=30)
@given(SHARES, SHARES, st.sampled_from(["success", "progress"]))
def test_it_is_a_round_number_of_pairs(difference, further, metric):
    found = needed_pairs(0.05, difference, max(difference, further), metric)
    assert 1 <= found <= MOST_NEEDED
    assert len(str(found).rstrip("0")) <= 2


def test_what_bets_must_win_is_counted_even_where_the_difference_is_always_the_same():
    # The stakes end at 1: even a sure gain of 0.1 multiplies them by 1.1 a pair at most.
    assert 1.1 ** needed_pairs(0.05, 0.1, 0.01, "progress") > 20


def test_more_is_needed_for_less_and_at_a_stricter_level():
    found = [needed_pairs(*of, 0.3, "success") for of in ((0.05, 0.2), (0.05, 0.1), (0.01, 0.1))]
    assert found == sorted(set(found))


def test_a_difference_that_never_failed_needs_as_many_pairs_as_one_can_count():
    assert needed_pairs(0.05, 1.0, 1.0, "success") == 6
