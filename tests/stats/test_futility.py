"""When a gate gives up."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from lefleet.stats.futility import (
    conditional_power,
    critical_of_betting,
    critical_of_spending,
    is_futile,
    is_refuted,
)


def power(wins, losses, pairs, left, min_effect=0.1, critical=2.0):
    return float(
        conditional_power(
            wins - losses, wins + losses, pairs, left, min_effect=min_effect, critical=critical
        )
    )


def test_it_is_the_formula():
    different = (40 + 2) / (100 + 4)
    above = 6 + 100 * 0.2 - 2 * sqrt(40 + 100 * different)
    expected = norm.cdf(above / sqrt(100 * (different - 0.04)))
    assert power(23, 17, 100, 100, min_effect=0.2) == pytest.approx(expected)


def test_a_gate_too_small_for_min_effect_looks_for_what_it_can_prove():
    different = (20 + 2) / (50 + 4)
    effect = 3.84 * sqrt(different / 100)
    above = 4 + 50 * effect - 3 * sqrt(20 + 50 * different)
    expected = norm.cdf(above / sqrt(50 * (different - effect**2)))
    assert power(12, 8, 50, 50, critical=3.0) == pytest.approx(expected)


@given(
    st.integers(0, 100),
    st.integers(0, 100),
    st.integers(0, 300),
    st.integers(0, 300),
    st.sampled_from([0.001, 0.1, 0.5, 0.999]),
)
def test_it_is_always_a_chance(wins, losses, ties, left, min_effect):
    value = power(wins, losses, wins + losses + ties, left, min_effect)
    assert 0 <= value <= 1


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 200))
def test_a_larger_lead_is_more_power(wins, losses, left):
    pairs = wins + losses + 20
    assert power(wins + 1, losses, pairs + 1, left) >= power(wins, losses + 1, pairs + 1, left)


@pytest.mark.parametrize(("wins", "losses", "expected"), [(4, 0, 1.0), (3, 1, 0.0), (0, 0, 0.0)])
def test_with_no_pairs_left_it_is_what_is_there(wins, losses, expected):
    assert power(wins, losses, 50, 0) == expected


def test_equal_pairs_alone_do_not_end_a_gate_at_once():
    assert power(0, 0, 5, 195) > 0.1
    assert power(0, 0, 100, 100) > 0.1


def test_it_works_on_many_gates_at_once():
    leads, different = np.array([0, 10]), np.array([20, 20])
    values = conditional_power(leads, different, 50, 50, min_effect=0.1, critical=2.0)
    assert values.tolist() == [power(10, 10, 50, 50), power(15, 5, 50, 50)]


@pytest.mark.parametrize(
    ("better", "worse", "futile"),
    [(0.05, 0.05, True), (0.05, 0.64, True), (0.05, 0.65, False), (0.2, 0.05, False)],
)
def test_a_likely_proof_of_worse_keeps_a_gate_going(better, worse, futile):
    assert bool(is_futile(np.array(better), np.array(worse), 0.1)) is futile


@pytest.mark.parametrize(
    ("interval", "refuted"),
    [((-0.09, 0.09), True), ((-0.02, 0.11), False), ((-0.11, 0.02), False), ((-1, 1), False)],
)
def test_an_interval_without_min_effect_refutes_it(interval, refuted):
    assert is_refuted(interval, 0.1, 0.1) is refuted


def test_less_room_takes_more_to_refute():
    assert is_refuted((-0.09, 0.09), 0.1, 0.1)
    assert not is_refuted((-0.09, 0.09), 0.05, 0.1)
    assert not is_refuted((-0.09, 0.09), 0.1, 0.05)


@pytest.mark.parametrize("alpha", [0.05, 0.001, 0.0001])
@pytest.mark.parametrize("pairs", [50, 200, 5000])
def test_a_strict_level_alone_is_no_reason_to_give_up(alpha, pairs):
    assert power(0, 0, 0, pairs, critical=critical_of_spending(alpha)) >= 0.75


def test_a_gate_that_no_outcome_can_decide_gives_up():
    assert power(0, 0, 0, 10, critical=critical_of_spending(1e-6)) < 0.001


def test_zero_never_gives_up():
    assert not is_futile(np.zeros(1), np.zeros(1), 0.0).any()


def test_a_smaller_alpha_asks_for_more():
    assert critical_of_spending(0.05) == pytest.approx(2.095, abs=0.001)
    assert critical_of_betting(0.05) == pytest.approx(2.448, abs=0.001)
    assert critical_of_spending(0.001) > critical_of_spending(0.05)
    assert critical_of_betting(0.001) > critical_of_betting(0.05)
