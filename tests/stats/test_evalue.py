"""E-values: fair bets, exactly."""

from fractions import Fraction
from functools import cache
from math import comb, exp, inf, isfinite, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet.stats import Pair
from lefleet.stats.evalue import Betting, EProcess, UniformMixture
from tests.stats.outcomes import LOSS, TIE, WIN, mixture, pairs

COUNT = st.integers(0, 60)


def formula(wins, losses):
    throws = wins + losses
    above = sum(comb(throws + 1, heads) for heads in range(wins + 1))
    return Fraction(above, (throws + 1) * comb(throws, wins))


def gather(text, *, graded=False):
    evidence = EProcess.start(graded=graded)
    for pair in pairs(text):
        evidence = evidence.observe(pair)
    return evidence


@given(COUNT, COUNT)
def test_the_mixture_is_its_formula_in_exact_integers(wins, losses):
    assert Fraction(*mixture(wins, losses).fraction) == formula(wins, losses)
    assert mixture(wins, losses).log_e == pytest.approx(log(formula(wins, losses)), abs=1e-9)


@given(COUNT, COUNT)
def test_a_fair_coin_neither_gains_nor_loses(wins, losses):
    now = mixture(wins, losses)
    after = Fraction(*now.won().fraction) + Fraction(*now.lost().fraction)
    assert after / 2 == Fraction(*now.fraction)


@pytest.mark.parametrize("throws", [0, 1, 2, 7, 30])
def test_all_outcomes_together_are_worth_one(throws):
    worth = sum(
        Fraction(comb(throws, wins), 2**throws) * formula(wins, throws - wins)
        for wins in range(throws + 1)
    )
    assert worth == 1


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_wealth_reaches_one_over_alpha_with_a_chance_of_at_most_alpha(alpha):
    @cache
    def reached(wins, losses):
        if mixture(wins, losses).log_e >= log(1 / alpha):
            return 1.0
        if wins + losses == 60:
            return 0.0
        return (reached(wins + 1, losses) + reached(wins, losses + 1)) / 2

    assert 0.2 * alpha < reached(0, 0) <= alpha


def test_thousands_of_pairs_are_finite():
    assert mixture(5000, 0).log_e == pytest.approx(5001 * log(2) - log(5001), abs=1e-6)
    assert isfinite(mixture(0, 5000).log_e)
    assert mixture(2500, 2500).log_e < 0


@given(st.lists(st.floats(-1, 1), max_size=20), st.floats(0, 1))
def test_a_fair_bet_neither_gains_nor_loses(history, size):
    bets = Betting.start()
    for difference in history:
        bets = bets.observe(difference)
    after = exp(bets.observe(size).log_e) + exp(bets.observe(-size).log_e)
    assert after / 2 == pytest.approx(exp(bets.log_e), rel=1e-9)


def test_a_bet_survives_the_worst_difference():
    bets = Betting.start()
    for _ in range(3000):
        bets = bets.observe(-1.0)
    assert -inf < bets.log_e < -50


@given(st.text("wl-", max_size=40))
def test_the_p_value_comes_from_the_largest_wealth_so_far(text):
    values = [gather(text[:end]).log_e for end in range(len(text) + 1)]
    assert gather(text).log_max == max(values)
    assert gather(text).p_value == pytest.approx(min(1, exp(-max(values))))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(-1, 1), st.floats(-1, 1)), max_size=15))
def test_graded_evidence_is_the_average_of_both(history):
    evidence, binary, bets = EProcess.start(graded=True), UniformMixture(), Betting.start()
    for difference, gain in history:
        evidence = evidence.observe(Pair(difference, gain))
        bets = bets.observe(gain)
        binary = {1: binary.won, 0: lambda same=binary: same, -1: binary.lost}[difference]()
    assert exp(evidence.log_e) == pytest.approx((exp(binary.log_e) + exp(bets.log_e)) / 2)


def test_graded_evidence_stays_finite():
    evidence = EProcess.start(graded=True)
    for _ in range(2500):
        evidence = evidence.observe(WIN)
    assert 1000 < evidence.log_e < inf
    assert evidence.p_value == 0.0
    for _ in range(2500):
        evidence = evidence.observe(LOSS)
    assert evidence.log_e < 0 < evidence.log_max


def test_progress_alone_is_evidence_where_success_is_equal():
    evidence = EProcess.start(graded=True)
    for _ in range(60):
        evidence = evidence.observe(Pair(0, 0.3))
    assert evidence.p_value < 0.001


def test_equal_pairs_change_nothing():
    assert gather("w-l--").log_e == gather("wl").log_e
    assert EProcess.start(graded=True).observe(TIE).log_e == pytest.approx(0.0)
