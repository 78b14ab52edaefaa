"""Intervals: how often they cover, of a rate and at every look."""

from itertools import pairwise
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet.stats import exact_interval, least_difference
from lefleet.stats.intervals import ConfidenceSequence


@st.composite
def outcomes(draw):
    trials = draw(st.integers(1, 500))
    return draw(st.integers(0, trials)), trials


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (0, 10, 0.0, 0.3084971),
        (1, 20, 0.0012651, 0.2487328),
        (5, 10, 0.1870860, 0.8129140),
        (8, 10, 0.4439045, 0.9747893),
        (10, 10, 0.6915029, 1.0),
        (1, 1, 0.0250000, 1.0),
    ],
)
def test_known_values(successes, trials, low, high):
    assert exact_interval(successes, trials) == pytest.approx((low, high), abs=5e-8)


@given(trials=st.integers(1, 500))
def test_the_ends_without_success_and_without_failure_have_a_closed_form(trials):
    edge = 1 - 0.025 ** (1 / trials)
    assert exact_interval(0, trials) == (0.0, pytest.approx(edge))
    assert exact_interval(trials, trials) == (pytest.approx(1 - edge), 1.0)


@given(outcomes())
def test_the_interval_holds_the_point_estimate(outcome):
    successes, trials = outcome
    low, high = exact_interval(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    assert low < high


@given(outcomes())
def test_failures_mirror_successes(outcome):
    successes, trials = outcome
    low, high = exact_interval(successes, trials)
    mirrored = exact_interval(trials - successes, trials)
    assert mirrored == pytest.approx((1 - high, 1 - low))


@pytest.mark.parametrize("won", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("lost", [0.0, 0.02, 0.15, 0.4])
def test_the_least_difference_is_above_the_true_one_in_at_most_one_of_twenty_cases(won, lost):
    pairs, too_high = 30, 0.0
    for wins in range(pairs + 1):
        for losses in range(pairs + 1 - wins):
            ties = pairs - wins - losses
            ways = comb(pairs, wins) * comb(pairs - wins, losses)
            chance = ways * won**wins * lost**losses * (1 - won - lost) ** ties
            if least_difference(wins, losses, pairs) > won - lost + 1e-12:
                too_high += chance
    assert too_high <= 0.05


@given(outcomes())
def test_more_confidence_is_a_wider_interval(outcome):
    low, high = exact_interval(*outcome, confidence=0.8)
    wider_low, wider_high = exact_interval(*outcome, confidence=0.99)
    assert wider_low <= low
    assert high <= wider_high
    assert wider_high - wider_low > high - low


@pytest.mark.parametrize("trials", range(1, 16))
@pytest.mark.parametrize("rate", [0.001, 0.05, 0.3, 0.5, 0.77, 0.99])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_true_rate_is_covered_as_often_as_promised(trials, rate, confidence):
    covered = 0.0
    for successes in range(trials + 1):
        low, high = exact_interval(successes, trials, confidence)
        if low <= rate <= high:
            covered += (
                comb(trials, successes) * rate**successes * (1 - rate) ** (trials - successes)
            )
    assert covered >= confidence


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5), (1, 0), (0, -1)])
def test_counts_that_cannot_be_are_refused(successes, trials):
    with pytest.raises(ValueError, match="successes"):
        exact_interval(successes, trials)


@pytest.mark.parametrize("confidence", [95.0, -0.1])
def test_a_confidence_that_is_no_share_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence"):
        exact_interval(3, 5, confidence)


DIFFERENCES = st.lists(st.floats(-1, 1), max_size=60)


def follow(differences, confidence=0.95, planned=200):
    sequence = ConfidenceSequence.start(confidence, planned)
    seen = [sequence]
    for difference in differences:
        sequence = sequence.observe(difference)
        seen.append(sequence)
    return seen


def test_nothing_is_known_before_the_first_pair():
    assert follow([])[-1].interval == (-1.0, 1.0)


@pytest.mark.parametrize(("win", "loss"), [(0.5, 0.5), (0.3, 0.1), (0.02, 0.0), (0.9, 0.05)])
def test_all_intervals_at_once_hold_the_true_mean_as_often_as_promised(win, loss):
    mean = win - loss

    def missed(sequence, left):
        """Exact chance that the mean is ever outside from here on."""
        low, high = sequence.interval
        if not low <= mean <= high:
            return 1.0
        if left == 0:
            return 0.0
        chances = {1.0: win, -1.0: loss, 0.0: 1.0 - win - loss}
        return sum(
            chance * missed(sequence.observe(difference), left - 1)
            for difference, chance in chances.items()
            if chance > 0
        )

    assert missed(ConfidenceSequence.start(0.5, 7), 7) <= 0.5


def test_the_promise_holds_over_a_long_gate_too():
    generator = np.random.default_rng(5)
    differences = generator.choice([1.0, 0.0, -1.0], size=(150, 150), p=[0.3, 0.5, 0.2])
    missed = 0
    for row in differences:
        low, high = follow(row, confidence=0.8)[-1].interval
        missed += not low <= 0.1 <= high
    # 80 % confidence: more than 42 of 150 would have a chance below 0.01.
    assert missed <= 42


@settings(deadline=None)
@given(DIFFERENCES)
def test_intervals_only_shrink_and_are_never_empty(differences):
    seen = [sequence.interval for sequence in follow(differences, confidence=0.5)]
    for (low, high), (next_low, next_high) in pairwise(seen):
        assert -1 <= low <= next_low < next_high <= high <= 1


@settings(deadline=None)
@given(DIFFERENCES)
def test_swapping_the_policies_mirrors_the_interval(differences):
    low, high = follow(differences)[-1].interval
    swapped = follow([-difference for difference in differences])[-1].interval
    # A candidate mean exactly at the limit may round to either side.
    assert swapped == pytest.approx((-high, -low), abs=0.0026)


def test_a_mean_that_moves_away_does_not_leave_an_empty_interval():
    low, high = follow([1.0] * 200 + [-1.0] * 2000)[-1].interval
    assert low < high


@pytest.mark.parametrize("effect", [0.0, 0.2])
def test_it_is_not_much_wider_than_an_interval_of_fixed_size(effect):
    wins = round(200 * (0.45 + effect) / 2)
    losses = round(200 * (0.45 - effect) / 2)
    differences = np.array([1.0] * wins + [-1.0] * losses + [0.0] * (200 - wins - losses))
    np.random.default_rng(0).shuffle(differences)
    low, high = follow(differences)[-1].interval
    fixed = 2 * 1.96 * sqrt((0.45 - effect**2) / 200)
    assert high - low < 1.45 * fixed
    assert low < effect < high


def test_the_ends_of_the_scale_are_reached():
    low, high = follow([1.0] * 400)[-1].interval
    assert low > 0.9
    assert high == 1.0
