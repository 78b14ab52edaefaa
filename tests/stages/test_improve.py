"""How much self-made data a mix has room for, and what is said about it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.records import ImproveRequest
from lefleet.stages.improve import _note, room
from tests.samples import finished


@pytest.mark.parametrize(
    ("episodes", "self_generated", "ratio", "expected"),
    [
        (10, 0, 0.5, 10),
        (10, 0, 0.0, 0),
        (7, 0, 0.3, 3),
        (9, 0, 0.1, 1),
        (15, 5, 0.5, 5),
        (20, 10, 0.5, 0),
        (20, 15, 0.5, 0),
        (0, 0, 0.5, 0),
        (10, 0, 0.9, 90),
    ],
)
def test_room_in_a_mix(episodes, self_generated, ratio, expected):
    assert room(episodes, self_generated, ratio) == expected


@given(
    demonstrations=st.integers(0, 100_000),
    self_generated=st.integers(0, 100_000),
    percent=st.integers(0, 99),
)
def test_the_mix_is_filled_up_to_the_ratio_and_not_beyond(demonstrations, self_generated, percent):
    ratio = Fraction(percent, 100)
    now = demonstrations + self_generated
    added = room(now, self_generated, percent / 100)

    def fits(more: int) -> bool:
        return self_generated + more <= ratio * (now + more)

    assert added >= 0
    assert fits(added) or added == 0
    assert not fits(added + 1)


def note(candidates: int, taken: int, **changes) -> str:
    episodes = [finished(seed=seed) for seed in range(candidates)]
    request = ImproveRequest(checkpoint="c", demos="d", **changes)
    return _note(episodes, episodes[:taken], request)


def test_nothing_is_said_when_everything_was_taken():
    assert note(3, 3) == ""


def test_what_the_ratio_left_out_is_said():
    assert note(5, 3, mixing_ratio=0.25) == "mixing_ratio 0.25 left out 2 of 5."


@pytest.mark.parametrize(
    ("method", "what"), [("harvest", "success to keep"), ("correct", "failure to correct")]
)
def test_it_is_said_that_nothing_was_found(method, what):
    assert note(0, 0, method=method) == f"No {what} was found; the data is unchanged."
