"""Sizes of a test of fixed size, and the room for an improvement."""

from itertools import product
from math import comb

import pytest
from scipy.stats import binom

from lefleet.errors import BadInput
from lefleet.stats import (
    GateRule,
    fixed_power,
    fixed_size,
    has_room,
    pairs_for_room,
    possible_pairs,
)
from tests.stats.outcomes import judged, pairs


@pytest.mark.parametrize(("pairs", "alpha"), [(1, 0.5), (6, 0.05), (8, 0.2)])
def test_power_is_that_of_all_outcomes(pairs, alpha):
    win, loss, tie = 0.5, 0.2, 0.3
    expected = 0.0
    for outcome in product((1, -1, 0), repeat=pairs):
        wins, losses = outcome.count(1), outcome.count(-1)
        chance = sum(comb(wins + losses, heads) for heads in range(wins, wins + losses + 1))
        if chance / 2 ** (wins + losses) <= alpha:
            expected += win**wins * loss**losses * tie ** outcome.count(0)
    assert fixed_power(pairs, alpha, win - loss, win + loss) == pytest.approx(expected)


@pytest.mark.parametrize(("effect", "power", "discordance"), [(0.1, 0.8, 0.45), (0.3, 0.9, 0.5)])
def test_the_size_is_just_enough(effect, power, discordance):
    pairs = fixed_size(0.05, power, effect, discordance)
    assert fixed_power(pairs, 0.05, effect, discordance) >= power
    assert fixed_power(pairs - 1, 0.05, effect, discordance) < power


def test_smaller_effects_and_smaller_alphas_need_more():
    usual = fixed_size(0.05, 0.8, 0.1, 0.45)
    assert fixed_size(0.05, 0.8, 0.05, 0.45) > 3 * usual
    assert fixed_size(0.001, 0.8, 0.1, 0.45) > 2 * usual


def test_a_candidate_that_only_wins():
    assert 5 <= fixed_size(0.05, 0.8, 0.5, 0.5) <= 20


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((0.0, 0.8, 0.1, 0.5), "alpha"),
        ((0.05, 1.0, 0.1, 0.5), "power"),
        ((0.05, 0.8, 0.0, 0.5), "min_effect"),
        ((0.05, 0.8, 0.2, 0.1), "discordance"),
        ((0.05, 0.8, 0.2, 1.1), "discordance"),
    ],
)
def test_what_cannot_be_is_refused(arguments, field):
    with pytest.raises(BadInput, match=f"^{field}:"):
        fixed_size(*arguments)


@pytest.mark.parametrize(
    ("level", "gain", "max_pairs", "is_enough"),
    [
        (0.04, 8.7 / 62, 60, True),
        (0.04, 3 / 62, 60, True),
        (0.04, 2 / 62, 60, False),
        (0.04, 1 / 62, 60, False),
        (0.0001, 3 / 62, 60, False),
        (0.04, 1 / 62, 400, True),
        (0.05, 0.5, 4, False),
    ],
)
def test_room_for_an_improvement(level, gain, max_pairs, is_enough):
    assert has_room(level, gain, max_pairs) is is_enough


def test_the_pairs_that_give_room_are_enough_eight_times_in_ten():
    needed = pairs_for_room(0.04, 1 / 62)
    assert binom.sf(4, needed - 1, 1 / 62) < 0.8 <= binom.sf(4, needed, 1 / 62)
    assert has_room(0.04, 1 / 62, needed)


@pytest.mark.parametrize(("wins", "state"), [(4, "exhausted"), (5, "better")])
def test_room_counts_the_wins_that_the_gate_needs_without_a_loss(wins, state):
    rule = GateRule(alpha_better=0.04, max_pairs=60, futility_below=0.0)
    assert judged(rule, pairs("-" * (60 - wins) + "w" * wins)).state == state


@pytest.mark.parametrize(("states", "pairs"), [(0, 60), (5, 15), (20, 60), (50, 60)])
def test_a_finite_list_of_initial_states_is_used_up_once(states, pairs):
    assert possible_pairs(60, states, tasks=3) == pairs
