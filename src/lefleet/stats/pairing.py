"""Pairs: one trial of each policy, matched before anybody knows how they ended."""

from collections.abc import Sequence
from typing import NamedTuple

from lefleet.errors import BadInput


class Pair(NamedTuple):
    """What the candidate had over the baseline."""

    difference: int
    """Of success: 1 where only the candidate succeeded, -1 where only the baseline did, else 0."""
    gain: float
    """Of progress, from -1 to 1; the same as `difference` where there is no progress."""

    @property
    def mirrored(self) -> "Pair":
        """The same pair with candidate and baseline swapped."""
        return Pair(-self.difference, -self.gain)


def match_trials(trials: Sequence[tuple[int, str]]) -> list[tuple[int, int]]:
    """Rows of the i-th trial of a with the i-th of b; trials are row and policy, as they were run.

    Fixed in advance, whatever the outcomes are: the unpaired use of a paired test.
    """
    rows: dict[str, list[int]] = {"a": [], "b": []}
    for row, policy in trials:
        if policy not in rows:
            raise BadInput(
                f"row {row}, policy: must be a or b, got {policy}.",
                "Call the policy that is judged a, and the other one b.",
            )
        rows[policy].append(row)
    fewer, more = sorted(rows, key=lambda policy: len(rows[policy]))
    if len(rows[fewer]) < len(rows[more]):
        raise BadInput(
            f"row {rows[more][len(rows[fewer])]}, policy: {more} has {len(rows[more])} trials, "
            f"{fewer} only {len(rows[fewer])}, so this one has no partner.",
            f"Run {fewer} as often as {more}, or leave the last ones out.",
        )
    return list(zip(rows["a"], rows["b"], strict=True))
