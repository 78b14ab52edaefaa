"""Seed blocks do not meet."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lefleet.records import (
    Corrections,
    EvaluateRequest,
    ExpertDemos,
    ImproveRequest,
    SeedBlock,
)

SIZE = 100_000_000


@given(count=st.integers(min_value=1, max_value=SIZE))
def test_blocks_of_any_size_up_to_100_million_are_disjoint(count):
    blocks = [range(first, first + count) for first in sorted(SeedBlock)]
    assert all(before[-1] < after[0] for before, after in pairwise(blocks))


def test_no_two_purposes_share_a_block():
    assert len(SeedBlock.__members__) == len(set(map(int, SeedBlock)))


def test_each_request_starts_in_the_block_of_its_purpose():
    assert ExpertDemos().seed == SeedBlock.COLLECT
    assert Corrections(checkpoint="c").seed == SeedBlock.COLLECT
    assert EvaluateRequest(checkpoint="c").seed == SeedBlock.EVALUATE
    assert ImproveRequest(checkpoint="c", demos="d").seed == SeedBlock.IMPROVE
