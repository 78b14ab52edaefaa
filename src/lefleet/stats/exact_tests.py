"""Exact two-sided tests of fixed size for two rates: of pairs, and of separate episodes.

They are right for one comparison that was planned; nothing here adjusts for several. Gates do.
"""

from math import comb


def paired_p(won: int, lost: int) -> float:
    """Sign test (McNemar's, exact): how often chance alone splits the differing pairs this
    unevenly or more."""
    pairs = won + lost
    tail = sum(comb(pairs, count) for count in range(min(won, lost) + 1))
    return min(1.0, 2.0 * tail / 2**pairs)


def unpaired_p(successes: int, episodes: int, others: int, other_episodes: int) -> float:
    """Fisher's test: how often as many successes in all are split at most as likely as these."""
    total = successes + others

    def ways(count: int) -> int:
        return comb(episodes, count) * comb(other_episodes, total - count)

    first, last = max(0, total - other_episodes), min(episodes, total)
    seen = ways(successes)
    extreme = sum(ways(count) for count in range(first, last + 1) if ways(count) <= seen)
    return min(1.0, extreme / comb(episodes + other_episodes, total))
