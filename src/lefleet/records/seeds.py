"""Seeds by purpose, in blocks that never meet.

A seed stands for one initial state. Data is collected, policies are judged and candidates are
gated on different seeds, so that nobody is examined on what they were taught.
"""

from enum import IntEnum


class SeedBlock(IntEnum):
    """First seed of each purpose; a block holds 100 million."""

    COLLECT = 0
    EVALUATE = 100_000_000
    IMPROVE = 200_000_000
    GATE = 300_000_000
    COMPARE = 500_000_000
