"""The exact sign test."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from lefleet.stats import sign_test

COUNT = st.integers(0, 300)


@pytest.mark.parametrize(
    ("wins", "losses", "chance"),
    [
        (1, 0, 0.5),
        (0, 1, 1.0),
        (1, 1, 0.75),
        (5, 0, 1 / 32),
        (4, 1, 6 / 32),
        (9, 1, 11 / 1024),
    ],
)
def test_small_counts_have_their_known_chance(wins, losses, chance):
    assert sign_test(wins, losses) == chance


def test_no_throw_at_all_is_no_evidence():
    assert sign_test(0, 0) == 1.0


@given(COUNT, COUNT)
def test_it_agrees_with_scipy(wins, losses):
    if wins + losses == 0:
        return
    expected = binomtest(wins, wins + losses, alternative="greater").pvalue
    assert sign_test(wins, losses) == pytest.approx(expected, rel=1e-9)


@given(COUNT, COUNT)
def test_both_sides_together_count_the_observed_throw_twice(wins, losses):
    both = sign_test(wins, losses) + sign_test(losses, wins)
    observed = sign_test(wins, losses) - (sign_test(wins + 1, losses - 1) if losses else 0.0)
    assert both == pytest.approx(1.0 + observed)


@given(COUNT, COUNT)
def test_it_is_a_chance(wins, losses):
    assert 0.0 < sign_test(wins, losses) <= 1.0


def test_thousands_of_throws_do_not_overflow():
    assert sign_test(2500, 2500) == pytest.approx(0.5, abs=0.01)


def test_a_chance_too_small_for_a_float_is_zero():
    assert sign_test(3000, 0) == 0.0


@pytest.mark.parametrize("counts", [(-1, 0), (0, -1)])
def test_a_negative_count_is_refused(counts):
    with pytest.raises(ValueError, match="negative"):
        sign_test(*counts)
