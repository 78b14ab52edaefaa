"""Gates as powerful as tests of fixed size: how many pairs they take, and when they give up."""

from collections.abc import Sequence
from functools import cache
from math import ceil
from typing import NamedTuple

from benchmarks.gates import BETTER, WORSE, Chances, Ends, GiveUp, as_the_gate, never, run_gates
from benchmarks.report import table
from lefleet.stats import GateRule, fixed_size

ALPHA = 0.05
BASELINE = 0.63
PAIRS_TARGETS = {0.8: 0.70, 0.9: 0.62}
NULL_TARGET = 0.70


class Design(NamedTuple):
    """A gate as powerful as a test of fixed size."""

    phi: float
    effect: float
    power: float
    fixed: int
    rule: GateRule

    def ends(
        self, simulated: int, difference: float, seed: int, give_up: GiveUp | None = None
    ) -> Ends:
        """Of fresh gates: not those that the size was chosen on."""
        effect = Chances.of(BASELINE, abs(difference), self.phi)
        drawn = effect.draw(simulated, self.rule.max_pairs, seed)
        return run_gates(self.rule, drawn if difference >= 0 else -drawn, give_up)


@cache
def _design(simulated: int, phi: float, effect: float, power: float) -> Design:
    """The smallest `max_pairs` with which the gate has the power of the fixed-size test."""
    chances = Chances.of(BASELINE, effect, phi)
    fixed = fixed_size(ALPHA, power, effect, chances.discordance)
    look_every = 5 if fixed >= 60 else 1
    low, high = fixed * 9 // 10, ceil(1.3 * fixed)
    drawn = chances.draw(simulated, high, seed=20)
    while high - low > 1:
        middle = (low + high) // 2
        rule = _rule(middle, effect, look_every)
        enough = run_gates(rule, drawn[:, :middle]).share(BETTER) >= power
        low, high = (low, middle) if enough else (middle, high)
    return Design(phi, effect, power, fixed, _rule(high, effect, look_every))


def _rule(max_pairs: int, min_effect: float, look_every: int) -> GateRule:
    return GateRule(ALPHA, ALPHA, max_pairs, min_effect, look_every)


def equal_power(simulated: int) -> tuple[list[str], list[str]]:
    rows, ratios, nulls, stretches = [], {power: [] for power in PAIRS_TARGETS}, [], []
    for power in PAIRS_TARGETS:
        for phi in (0.0, 0.3, 0.6):
            for effect in (0.1, 0.2, 0.3):
                if not Chances.of(BASELINE, effect, phi).possible:
                    continue
                design = _design(simulated, phi, effect, power)
                better = design.ends(simulated, effect, 121)
                null = design.ends(simulated, 0.0, 122)
                worse = design.ends(simulated, -effect, 123)
                ratios[power].append(better.mean_pairs / design.fixed)
                nulls.append(null.mean_pairs / design.fixed)
                stretches.append(design.rule.max_pairs / design.fixed)
                rows.append(
                    (
                        f"{power}, {phi}, {effect}",
                        str(design.fixed),
                        f"{design.rule.max_pairs} ({stretches[-1]:.2f})",
                        f"{better.share(BETTER):.3f}",
                        f"{better.mean_pairs:.0f} ({ratios[power][-1]:.2f})",
                        f"{null.mean_pairs:.0f} ({nulls[-1]:.2f})",
                        f"{null.share(BETTER):.3f}",
                        f"{worse.share(WORSE):.2f}",
                    )
                )
    header = (
        "power, phi, min_effect = true difference",
        "pairs of the fixed-size test",
        "max_pairs of the gate (ratio)",
        "its power",
        "mean pairs (ratio)",
        "mean pairs when no better (ratio)",
        "wrongly better then",
        "power for worse",
    )
    said = [
        f"At equal power {power} the gate takes {min(found):.2f} to {max(found):.2f} of the pairs "
        f"of a fixed-size test: the target of {target:.2f} is "
        f"{_met(max(found) <= target, found, target)}."
        for (power, target), found in zip(PAIRS_TARGETS.items(), ratios.values(), strict=True)
    ]
    said += [
        f"A candidate that is no better ends at {min(nulls):.2f} to {max(nulls):.2f} of it: the "
        f"target of {NULL_TARGET:.2f} is {_met(max(nulls) <= NULL_TARGET, nulls, NULL_TARGET)}. "
        f"max_pairs is {min(stretches):.2f} to {max(stretches):.2f} of the fixed size. Looks are "
        "after every 5 pairs, after every pair where the fixed size is below 60. The baseline "
        f"rate is {BASELINE}. Sizes were chosen on other simulated gates than those shown, and so "
        "were the constants of the futility rule: on these cases, to meet the last target."
    ]
    return [table(header, rows)], said


def _met(kept: bool, found: Sequence[float], target: float) -> str:
    count = sum(value <= target for value in found)
    return "met" if kept else f"met in {count} of {len(found)} cases"


def giving_up(simulated: int) -> tuple[list[str], list[str]]:
    rows = []
    for phi, effect, power in ((0.3, 0.1, 0.8), (0.3, 0.1, 0.9)):
        design = _design(simulated, phi, effect, power)
        below = design.rule.futility_below
        rules: dict[str, GiveUp] = {
            "never": never,
            "better is out of reach": lambda better, _, below=below: better < below,
            "better and worse are out of reach": lambda better, worse, below=below: (
                (better < below) & (worse < below)
            ),
            "better is out of reach and worse is not likely (the gate)": as_the_gate(design.rule),
        }
        for name, give_up in rules.items():
            better = design.ends(simulated, effect, 131, give_up)
            null = design.ends(simulated, 0.0, 132, give_up)
            worse = design.ends(simulated, -effect, 133, give_up)
            rows.append(
                (
                    f"power {power}: {name}",
                    f"{better.share(BETTER):.3f}",
                    f"{better.mean_pairs / design.fixed:.2f}",
                    f"{null.mean_pairs / design.fixed:.2f}",
                    f"{worse.share(WORSE):.2f}",
                    f"{worse.mean_pairs / design.fixed:.2f}",
                )
            )
    header = (
        "when the gate gives up (phi 0.3, min_effect 0.1)",
        "power for better",
        "mean pairs, ratio to fixed size",
        "the same when no better",
        "power for worse",
        "the same when worse by min_effect",
    )
    return [table(header, rows)], [
        "A gate that gives up as soon as better is out of reach seldom proves that a candidate is "
        "worse; one that waits for both costs more than the target for candidates that are no "
        "better. The gate's rule lies between."
    ]
