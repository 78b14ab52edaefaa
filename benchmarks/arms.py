"""Arms of an experiment over seeds: what each came to, and how it compares."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.stats import t as student

from benchmarks.report import table
from lefleet.records import Rate
from lefleet.stats import exact_interval

BASE = "base"


class Outcome(NamedTuple):
    """What came of one seed."""

    rates: dict[str, Rate]
    added: dict[str, int]
    """Episodes that every arm added, by task."""
    found: dict[str, dict[str, int]]
    """Episodes that each arm could have added, by task."""
    frames: dict[str, int]
    """Frames that each arm added."""


def arms_table(arms: Sequence[str], plain: str, outcomes: Sequence[Outcome]) -> str:
    """One row per arm; differences are to the base and to the arm `plain`."""
    header = (
        "trained on",
        "frames added, mean",
        "mean success",
        "per seed",
        "pooled, exact 95 % interval",
        "points over base",
        f"points over {plain}",
    )
    return table(header, [_row(arm, plain, outcomes) for arm in arms])


def list_counts(outcomes: Sequence[Outcome]) -> str:
    """What was added and found for every seed, task by task."""
    return "; ".join(_counts(number, outcome) for number, outcome in enumerate(outcomes))


def _row(arm: str, plain: str, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    values = [outcome.rates[arm] for outcome in outcomes]
    successes, episodes = sum(v.successes for v in values), sum(v.episodes for v in values)
    low, high = exact_interval(successes, episodes)
    return (
        arm,
        f"{fmean(outcome.frames[arm] for outcome in outcomes):.0f}",
        f"{fmean(value.rate for value in values):.1%}",
        " ".join(f"{value.rate:.0%}" for value in values),
        f"{successes}/{episodes} ({low:.1%} to {high:.1%})",
        _difference(arm, BASE, outcomes),
        _difference(arm, plain, outcomes),
    )


def verdicts(arms: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """Whether each arm is proven to be better or worse than the base."""
    lines = []
    for arm in arms:
        gap = _gap(arm, BASE, outcomes)
        if gap.low > 0:
            verdict = "better than the base"
        elif gap.high < 0:
            verdict = "worse than the base"
        else:
            verdict = "not proven to differ from the base"
        lines.append(f"{arm} is {verdict} ({gap.mean:+.1f} points).")
    return [line[0].upper() + line[1:] for line in lines]


class Gap(NamedTuple):
    """Mean over seeds of the paired differences in points, with its 95 % t interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


def paired_gap(differences: Sequence[float]) -> Gap:
    """Of the differences of two rates, one for each seed."""
    points = [100 * one for one in differences]
    mean = fmean(points)
    if len(points) < 2:
        return Gap(mean, -100.0, 100.0)
    half = float(student.ppf(0.975, len(points) - 1)) * stdev(points) / len(points) ** 0.5
    return Gap(mean, mean - half, mean + half)


def _gap(arm: str, other: str, outcomes: Sequence[Outcome]) -> Gap:
    return paired_gap([one.rates[arm].rate - one.rates[other].rate for one in outcomes])


def _difference(arm: str, other: str, outcomes: Sequence[Outcome]) -> str:
    if arm in (BASE, other) or other not in outcomes[0].rates:
        return "–"
    return str(_gap(arm, other, outcomes))


def _counts(number: int, outcome: Outcome) -> str:
    def listed(counts: Mapping[str, int]) -> str:
        return "/".join(str(count) for count in counts.values())

    found = ", ".join(f"{arm} {listed(counts)}" for arm, counts in outcome.found.items())
    return f"seed {number} {listed(outcome.added)} (found: {found})"
