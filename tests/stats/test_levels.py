"""Levels of the gates of a run: shares, what is passed on, the reserve, and the promises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.errors import BadInput
from lefleet.stats import gate_level

VERDICTS = st.lists(st.booleans(), max_size=60)
ALPHAS = st.sampled_from([0.01, 0.05, 0.5])


def levels(guarantee, planned, verdicts, alpha=0.05):
    """Of every gate, the one after the last verdict included."""
    return [
        gate_level(guarantee, alpha, planned, verdicts[:gate]) for gate in range(len(verdicts) + 1)
    ]


def shares(planned, gates):
    return [level.share for level in levels("run", planned, [False] * (gates - 1))]


def test_two_planned_gates_share_most_of_alpha_and_the_reserve_follows():
    assert shares(2, 4) == pytest.approx([0.02, 0.02, 0.00608, 0.00152], abs=5e-6)
    sources = [level.source for level in levels("run", 2, [False] * 3)]
    assert sources == ["planned", "planned", "reserve", "reserve"]


def test_of_many_planned_gates_later_ones_get_less():
    assert shares(6, 6) == pytest.approx([0.04 / 6] * 6)
    assert shares(7, 3) == pytest.approx([0.024317, 0.006079, 0.002702], abs=5e-7)


def test_where_no_gate_was_planned_all_of_alpha_is_the_reserve():
    assert shares(0, 2) == pytest.approx([0.030396, 0.007599], abs=5e-7)


@given(st.integers(0, 12), st.integers(1, 400), ALPHAS)
def test_shares_add_up_to_alpha_at_most(planned, gates, alpha):
    made = levels("run", planned, [False] * (gates - 1), alpha)
    assert sum(level.share for level in made) <= alpha
    assert all(level.better == level.worse == level.share for level in made)


def test_a_gate_that_says_better_passes_its_whole_level_on():
    first, second, third, fourth = levels("run", 3, [True, True, False], alpha=0.06)
    assert (first.better, second.better, third.better) == pytest.approx((0.016, 0.032, 0.048))
    assert (third.share, third.passed_on) == pytest.approx((0.016, 0.032))
    assert fourth.passed_on == 0.0
    assert fourth.better == fourth.share


def test_a_passed_level_reaches_the_reserve():
    extended = levels("run", 2, [True, True])[2]
    assert extended.source == "reserve"
    assert extended.passed_on == pytest.approx(0.04)
    assert extended.better == extended.share + extended.passed_on


@given(VERDICTS, st.integers(0, 12))
def test_worse_gets_shares_only(verdicts, planned):
    for level, plain in zip(
        levels("run", planned, verdicts),
        levels("run", planned, [False] * len(verdicts)),
        strict=True,
    ):
        assert level.worse == plain.worse == level.share


@given(VERDICTS, st.integers(0, 12), ALPHAS)
def test_no_share_is_lost_twice(verdicts, planned, alpha):
    # Up to the first error, levels are lost only where a gate does not say better, or at the end.
    made = levels("run", planned, verdicts, alpha)
    ends = [not better for better in verdicts] + [True]
    lost = sum(level.better for level, is_end in zip(made, ends, strict=True) if is_end)
    assert lost <= alpha
    assert lost == pytest.approx(sum(level.share for level in made))


@given(VERDICTS, ALPHAS)
def test_the_estimated_share_of_false_promotions_stays_below_alpha(promotions, alpha):
    spent = 0.0
    for gate, promoted in enumerate(promotions):
        spent += gate_level("rate", alpha, 5, promotions[:gate]).better
        made = sum(promotions[:gate]) + promoted
        assert spent / max(1, made) <= alpha


def test_little_of_the_rate_is_given_away():
    assert sum(level.better for level in levels("rate", 5, [True] * 400)) / 400 > 0.8 * 0.05


@given(VERDICTS, st.data())
def test_with_a_rate_a_promotion_earns_level_for_every_later_gate(promotions, data):
    if not promotions:
        return
    at = data.draw(st.integers(0, len(promotions) - 1))
    more = [*promotions[:at], True, *promotions[at + 1 :]]
    less = [*promotions[:at], False, *promotions[at + 1 :]]
    assert gate_level("rate", 0.05, 5, more).better > gate_level("rate", 0.05, 5, less).better


def test_with_a_rate_promotions_keep_a_long_run_able_to_decide():
    history = [gate % 5 == 0 for gate in range(60)]
    rate, run = (gate_level(guarantee, 0.05, 99, history) for guarantee in ("rate", "run"))
    assert rate.better > 50 * run.better
    assert (rate.better, rate.source) == (rate.worse, "rate")


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("guarantee", ["run", "rate"])
def test_an_alpha_that_is_no_level_is_refused(guarantee, alpha):
    with pytest.raises(BadInput, match="alpha"):
        gate_level(guarantee, alpha, 2, [])
