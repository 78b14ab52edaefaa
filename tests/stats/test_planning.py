"""Levels of the gates of a run, and sizes of a test of fixed size."""

from itertools import product
from math import comb, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.errors import BadInput
from lefleet.stats import fixed_power, fixed_size, gate_alpha

PROMOTIONS = st.lists(st.booleans(), max_size=200)


def levels(guarantee, promotions, alpha=0.05):
    return [gate_alpha(guarantee, alpha, promotions[:gate]) for gate in range(len(promotions) + 1)]


@pytest.mark.parametrize(("gates", "level"), [(0, 0.030396), (1, 0.007599), (9, 0.000304)])
def test_levels_of_a_run(gates, level):
    assert gate_alpha("run", 0.05, [False] * gates) == pytest.approx(level, abs=5e-7)


@given(PROMOTIONS)
def test_levels_of_a_run_depend_only_on_the_number_of_gates(promotions):
    assert levels("run", promotions) == levels("run", [False] * len(promotions))


def test_levels_of_a_run_add_up_to_alpha():
    total = sum(levels("run", [False] * 2000))
    assert total <= 0.05
    # The rest of the sum of 1 / k^2 after 2001 terms is about 1 / 2001.
    assert total == pytest.approx(0.05 * (1 - 6 / pi**2 / 2001), rel=1e-6)


@given(PROMOTIONS, st.sampled_from([0.01, 0.05, 0.5]))
def test_the_estimated_share_of_false_promotions_stays_below_alpha(promotions, alpha):
    spent = 0.0
    for gate, promoted in enumerate(promotions):
        spent += gate_alpha("rate", alpha, promotions[:gate])
        made = sum(promotions[:gate]) + promoted
        assert spent / max(1, made) <= alpha


def test_little_of_the_rate_is_given_away():
    promotions = [True] * 400
    assert sum(levels("rate", promotions)) / 400 > 0.8 * 0.05


@given(PROMOTIONS, st.data())
def test_a_promotion_earns_level_for_every_later_gate(promotions, data):
    if not promotions:
        return
    at = data.draw(st.integers(0, len(promotions) - 1))
    more = [*promotions[:at], True, *promotions[at + 1 :]]
    less = [*promotions[:at], False, *promotions[at + 1 :]]
    assert gate_alpha("rate", 0.05, more) > gate_alpha("rate", 0.05, less)


def test_promotions_keep_a_long_run_able_to_decide():
    history = [gate % 5 == 0 for gate in range(60)]
    assert gate_alpha("rate", 0.05, history) > 50 * gate_alpha("run", 0.05, history)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("guarantee", ["run", "rate"])
def test_an_alpha_that_is_no_level_is_refused(guarantee, alpha):
    with pytest.raises(BadInput, match="alpha"):
        gate_alpha(guarantee, alpha, [])


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
