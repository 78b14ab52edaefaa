"""Pairs: one trial of each policy, matched before anybody knows how they ended."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

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


class Trial(NamedTuple):
    """One trial of an unpaired comparison, in the order in which they were run."""

    policy: Literal["a", "b"]
    """a is the candidate, b is the baseline."""
    success: float


class Pairing(NamedTuple):
    """Pairs, and the rows that found no partner."""

    pairs: tuple[Pair, ...]
    leftover: tuple[int, ...]
    """Row numbers from 1."""


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


def pair_trials(trials: Iterable[Trial]) -> Pairing:
    """The i-th trial of a with the i-th of b: fixed in advance, whatever the outcomes are."""
    successes: dict[str, list[int]] = {"a": [], "b": []}
    rows: dict[str, list[int]] = {"a": [], "b": []}
    for row, trial in enumerate(trials, 1):
        if trial.policy not in successes:
            raise BadInput(
                f"row {row}, policy: must be a or b, got {trial.policy}.",
                "Call the candidate a and the baseline b.",
            )
        successes[trial.policy].append(success_of(trial.success, row, "success"))
        rows[trial.policy].append(row)
    count = min(len(successes["a"]), len(successes["b"]))
    pairs = read_pairs(successes["a"][:count], successes["b"][:count])
    return Pairing(pairs, tuple(sorted(rows["a"][count:] + rows["b"][count:])))
