"""The levels of a run's gates."""

from math import pi

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.errors import BadInput
from lefleet.stats import gate_alpha

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
