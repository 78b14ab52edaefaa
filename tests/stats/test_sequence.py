"""The confidence sequence of the difference."""

from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet.stats.sequence import ConfidenceSequence

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
