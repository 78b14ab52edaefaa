"""What a gate is given: pairs of trials, and numbers in their range."""

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from lefleet.errors import BadInput


def require_alpha(alpha: float, field: str = "alpha") -> None:
    """An error probability; above one half both sides of a comparison would be proven at once."""
    if not 0.0 < alpha <= 0.5:
        raise BadInput(
            f"{field}: must lie above 0 and not above 0.5, got {alpha}.", "The usual one is 0.05."
        )


def require_share(field: str, value: float) -> None:
    """A number strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise BadInput(f"{field}: must lie between 0 and 1, got {value}.", "Give a share like 0.1.")


def require_count(field: str, value: int) -> None:
    """At least one of something."""
    if value < 1:
        raise BadInput(f"{field}: must be at least 1, got {value}.", "Give a whole number.")


def success_of(value: float, line: int, field: str) -> int:
    """0 or 1; lines count from 1, as in an editor."""
    if value not in (0, 1):
        raise BadInput(
            f"line {line}, {field}: success must be 0 or 1, got {value:g}.",
            "Write 1 for a success and 0 for a failure; for values in between use "
            "--metric progress.",
        )
    return int(value)


def progress_of(value: float, line: int, field: str) -> float:
    """A number from 0 to 1; lines count from 1, as in an editor."""
    if not (isfinite(value) and 0.0 <= value <= 1.0):
        raise BadInput(
            f"line {line}, {field}: progress must lie between 0 and 1, got {value:g}.",
            "Scale it to that range, or leave the line out.",
        )
    return float(value)


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
    """Lines of the i-th trial of a and of b; trials are line and policy, in the order of running.

    Fixed in advance, whatever the outcomes are: the unpaired use of a paired test.
    """
    lines: dict[str, list[int]] = {"a": [], "b": []}
    for line, policy in trials:
        if policy not in lines:
            raise BadInput(
                f"line {line}, policy: must be a or b, got {policy}.",
                "Call the policy that is judged a, and the other one b.",
            )
        lines[policy].append(line)
    fewer, more = sorted(lines, key=lambda policy: len(lines[policy]))
    if len(lines[fewer]) < len(lines[more]):
        raise BadInput(
            f"line {lines[more][len(lines[fewer])]}, policy: {more} has {len(lines[more])} trials, "
            f"{fewer} only {len(lines[fewer])}, so this one has no partner.",
            f"Run {fewer} as often as {more}, or leave the last ones out.",
        )
    return list(zip(lines["a"], lines["b"], strict=True))
