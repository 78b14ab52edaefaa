"""Exact tests of two rates, against scipy's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, fisher_exact

from lefleet.stats.exact_tests import paired_p, unpaired_p

COUNTS = st.integers(0, 40)


@given(COUNTS, COUNTS)
def test_the_paired_test_is_the_exact_sign_test(won, lost):
    expected = binomtest(won, won + lost).pvalue if won + lost else 1.0
    assert paired_p(won, lost) == pytest.approx(expected)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_the_unpaired_test_is_fishers(successes, failures, others, other_failures):
    expected = fisher_exact([[successes, failures], [others, other_failures]]).pvalue
    found = unpaired_p(successes, successes + failures, others, others + other_failures)
    assert found == pytest.approx(expected, rel=1e-6)


def test_known_values():
    assert paired_p(5, 0) == pytest.approx(0.0625)
    assert paired_p(0, 0) == 1.0
    assert unpaired_p(0, 20, 20, 20) == pytest.approx(2 / 137846528820)
