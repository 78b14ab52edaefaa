"""Pairs: one trial of each policy, matched before anybody knows how they ended."""

from collections.abc import Sequence
from typing import NamedTuple

from lefleet.errors import BadInput
from lefleet.stats.checks import progress_of, success_of


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


class Progress(NamedTuple):
    """How far each trial came, from 0 to 1, in the order of the successes."""

    candidate: Sequence[float]
    baseline: Sequence[float]


def read_pairs(
    candidate: Sequence[float], baseline: Sequence[float], progress: Progress | None = None
) -> tuple[Pair, ...]:
    """Pairs from columns of successes, checked value by value."""
    columns = {"candidate": candidate, "baseline": baseline}
    if progress is not None:
        columns |= {
            "candidate_progress": progress.candidate,
            "baseline_progress": progress.baseline,
        }
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        counted = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise BadInput(
            f"outcomes: the columns have different lengths ({counted}).",
            "Every row is one pair and needs all of its values.",
        )
    rows = zip(candidate, baseline, *(progress or (candidate, baseline)), strict=True)
    pairs = []
    for row, (ours, theirs, ours_graded, theirs_graded) in enumerate(rows, 1):
        difference = success_of(ours, row, "candidate") - success_of(theirs, row, "baseline")
        gain = progress_of(ours_graded, row, "candidate_progress") - progress_of(
            theirs_graded, row, "baseline_progress"
        )
        pairs.append(Pair(difference, gain))
    return tuple(pairs)


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
