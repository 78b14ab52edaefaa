"""The exact interval of a success rate."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.stats import exact_interval


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
