"""The exact sequential test: its boundaries, its error and its p-values."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet.errors import BadInput
from lefleet.stats.sign_test import SignTest, Spending
from tests.stats.outcomes import chance, every_way

# Neither is a sum of powers of 1/2, so no chance of a rejection hits a budget exactly.
ALPHAS = st.sampled_from([0.3, 0.05, 0.0123])


@st.composite
def small_gates(draw):
    differs = draw(st.lists(st.booleans(), min_size=1, max_size=9))
    looks = draw(st.sets(st.integers(1, len(differs)), min_size=1))
    return differs, sorted(looks)


def run(alpha, outcomes, looks, max_pairs=None):
    """The test at each look."""
    test = SignTest.start(alpha, max_pairs or len(outcomes))
    seen = [test]
    for pairs in looks:
        differences = [pair.difference for pair in outcomes[:pairs]]
        test = test.look(pairs, differences.count(1), differences.count(-1))
        seen.append(test)
    return seen


def exact_boundaries(alpha, differing, looks, max_pairs):
    """The rule in fractions: remove mass from the top while the budget lasts."""
    mass, spent, before, found = {0: Fraction(1)}, Fraction(0), 0, []
    for pairs, different in zip(looks, differing, strict=True):
        for _ in range(different - before):
            mass = {
                wins: (mass.get(wins, 0) + mass.get(wins - 1, 0)) / 2
                for wins in range(max(mass) + 2)
            }
        before = different
        budget = Fraction(alpha) * pairs / max_pairs
        while mass and spent + mass[max(mass)] <= budget:
            spent += mass.pop(max(mass))
        found.append((max(mass) + 1, spent))
    return found


@settings(max_examples=60, deadline=None)
@given(small_gates(), ALPHAS)
def test_a_rejection_is_never_more_likely_than_alpha(gate, alpha):
    differs, looks = gate
    ends = [run(alpha, outcomes, looks)[-1] for outcomes in every_way(differs)]
    assert chance(sum(end.proven for end in ends), differs) <= Fraction(alpha)


@settings(max_examples=60, deadline=None)
@given(small_gates(), ALPHAS)
def test_the_p_value_is_valid_at_every_level(gate, alpha):
    differs, looks = gate
    ends = [run(alpha, outcomes, looks)[-1].p_value for outcomes in every_way(differs)]
    for level in set(ends):
        assert chance(sum(end <= level for end in ends), differs) <= Fraction(level)


@settings(deadline=None)
@given(small_gates(), ALPHAS, st.data())
def test_the_p_value_falls_and_agrees_with_the_decision(gate, alpha, data):
    differs, looks = gate
    outcomes = data.draw(st.sampled_from(list(every_way(differs))))
    tests = run(alpha, outcomes, looks)
    values = [test.p_value for test in tests]
    assert values == sorted(values, reverse=True)
    assert [test.proven for test in tests] == [value <= alpha for value in values]
    assert all(0 < value <= 1 for value in values)


@settings(max_examples=40, deadline=None)
@given(ALPHAS, st.lists(st.integers(0, 4), min_size=1, max_size=25), st.integers(4, 6))
def test_boundaries_are_those_of_exact_fractions(alpha, blocks, step):
    looks = [step * (number + 1) for number in range(len(blocks))]
    differing = np.cumsum(blocks).tolist()
    spending = Spending.start(alpha, looks[-1])
    for pairs, different, (boundary, spent) in zip(
        looks, differing, exact_boundaries(alpha, differing, looks, looks[-1]), strict=True
    ):
        spending = spending.look(pairs, np.array([different]))
        assert spending.boundary[0] == boundary
        assert spent <= Fraction(float(spending.spent[0]))
        assert float(spending.spent[0]) == pytest.approx(float(spent), rel=1e-9, abs=1e-290)


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize("step", [1, 5, 200])
def test_rounding_does_not_break_the_level_and_little_is_wasted(alpha, step):
    looks = range(step, 201, step)
    exact = exact_boundaries(alpha, list(looks), list(looks), 200)
    spending = Spending.start(alpha, 200)
    for pairs, (boundary, _) in zip(looks, exact, strict=True):
        spending = spending.look(pairs, np.array([pairs]))
        assert spending.boundary[0] >= boundary
    assert exact[-1][1] <= Fraction(alpha)
    assert spending.spent[0] >= 0.6 * alpha


def test_rows_are_tests_of_their_own():
    together = Spending.start(0.05, 40, rows=3)
    alone = [Spending.start(0.05, 40) for _ in range(3)]
    for pairs, counts in [(10, (0, 4, 10)), (20, (0, 9, 20)), (40, (8, 9, 40))]:
        together = together.look(pairs, np.array(counts))
        alone = [
            test.look(pairs, np.array([count])) for test, count in zip(alone, counts, strict=True)
        ]
        assert together.boundary.tolist() == [int(test.boundary[0]) for test in alone]
        assert together.spent == pytest.approx([float(test.spent[0]) for test in alone])


def test_one_look_at_the_end_is_the_sign_test():
    # Of ten coins at least nine heads: 11 / 1024.
    assert SignTest.start(0.05, 10).look(10, 9, 1).p_value == pytest.approx(11 / 1024)
    assert not SignTest.start(0.05, 10).look(10, 8, 2).proven
    assert SignTest.start(0.06, 10).look(10, 8, 2).proven


def test_what_is_rejected_stays_rejected():
    rejected = SignTest.start(0.05, 20).look(10, 10, 0)
    assert rejected.proven
    assert rejected.look(20, 10, 10) is rejected


def test_pairs_that_are_equal_are_no_evidence():
    test = SignTest.start(0.05, 100)
    for pairs in range(5, 101, 5):
        test = test.look(pairs, 0, 0)
    assert test.p_value == 1.0


def test_one_pair_proves_nothing():
    assert SignTest.start(0.05, 1).look(1, 1, 0).p_value > 0.05


def test_thousands_of_pairs():
    test = SignTest.start(0.05, 5000)
    for pairs in range(50, 5001, 50):
        test = test.look(pairs, pairs // 2, pairs // 2)
    assert not test.proven
    assert test.spending.spent[0] == pytest.approx(0.05, rel=0.05)
    last = SignTest.start(0.05, 5000).look(5000, 2600, 2400)
    assert last.p_value == pytest.approx(0.00244, rel=0.01)


def test_overwhelming_evidence_is_not_zero():
    assert 0 < SignTest.start(0.05, 5000).look(5000, 5000, 0).p_value < 1e-200


@pytest.mark.parametrize("look", [(5, 3, 3), (21, 1, 1), (0, 0, 0)])
def test_a_look_that_cannot_be_is_refused(look):
    with pytest.raises(ValueError, match="no look"):
        SignTest.start(0.05, 20).look(*look)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 0.51, 1.0, float("nan")])
def test_an_alpha_that_is_no_level_is_refused(alpha):
    with pytest.raises(BadInput, match="alpha"):
        SignTest.start(alpha, 20)
