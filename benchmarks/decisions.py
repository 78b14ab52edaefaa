"""Simulated gates: false promotions over whole runs, power, and pairs against fixed sizes."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.equal_power import ALPHA, BASELINE, equal_power, giving_up
from benchmarks.gates import (
    BETTER,
    WORSE,
    Chances,
    Ends,
    as_pairs,
    never,
    run_e_processes,
    run_gates,
)
from benchmarks.report import Section, table
from benchmarks.settling import settling
from benchmarks.whole_runs import GATES, demo_end, run_promise
from benchmarks.workshop import Workshop, say
from lefleet.stats import (
    Gate,
    GateRule,
    Pair,
    fixed_power,
    fixed_size,
)


class Size(NamedTuple):
    """How much of everything."""

    runs: int
    """Simulated runs of ten gates, for each story and setting."""
    patterns: int
    """Patterns of differing pairs that an exact error is averaged over."""
    demos: int
    """Simulated runs of the demo."""
    flat: int
    """Simulated runs of ten gates at one level."""
    simulated: int
    """Simulated gates for each power and mean."""
    pairings: int
    """Random pairings of a published result."""
    checked: int
    """Simulated gates that are also put through the gate itself."""


FULL = Size(20_000, 200, 1_000, 5_000, 10_000, 500, 200)
QUICK = Size(50, 5, 5, 50, 50, 3, 3)


def measure(workshop: Workshop) -> Section:
    size = QUICK if workshop.quick else FULL
    tables, remarks = [], []
    parts = {
        "whole runs": lambda: run_promise(size.runs, size.patterns),
        "the demo": lambda: demo_end(size.demos),
        "other rules": lambda: _other_rules(size),
        "powers": lambda: _powers(size),
        "equal power": lambda: equal_power(size.simulated),
        "giving up": lambda: giving_up(size.simulated),
        "settling": lambda: settling(size.simulated),
        "replays": lambda: _replays(size),
        "checks": lambda: _checked(size),
    }
    for name, part in parts.items():
        found, said = part()
        say(f"{name}: done")
        tables += found
        remarks += said
    return Section("false promotions, power and pairs of the gate", tuple(tables), tuple(remarks))


def _other_rules(size: Size) -> tuple[list[str], list[str]]:
    rows = []
    for baseline in (0.3, BASELINE, 0.9):
        chances = Chances.of(baseline, 0.0, 0.0)
        flat = [
            run_gates(
                GateRule(ALPHA, ALPHA), chances.draw(size.flat, GateRule().max_pairs, seed)
            ).verdict
            == BETTER
            for seed in range(GATES)
        ]
        rows.append(
            (
                str(baseline),
                f"{np.any(flat, axis=0).mean():.3f}",
                f"{_stored(size, baseline, seed=1)[1].mean():.3f}",
            )
        )
    header = (
        f"any promotion in {GATES} gates, candidate never better: rate",
        "the gate, 0.05 at every one",
        "+0.05 over 100 episodes, stored baseline",
    )
    at_once, later = _naive_misses(size)
    return [table(header, rows)], [
        "The rule of other loops promotes when 100 episodes show 0.05 more than the stored rate, "
        f"and then stores the new one. It misses a candidate that is 0.10 better in {at_once:.0%} "
        f"of the cases, and in {later:.0%} after ten cycles without progress, because what it "
        "stores only goes up."
    ]


def _stored(size: Size, rate: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Ten cycles of point estimates without progress: what is stored, whether any was promoted."""
    generator = np.random.default_rng(seed)
    stored = generator.binomial(100, rate, size.runs)
    promoted = np.zeros(size.runs, dtype=bool)
    for _ in range(GATES):
        candidate = generator.binomial(100, rate, size.runs)
        passed = candidate >= stored + 5
        promoted |= passed
        stored = np.where(passed, candidate, stored)
    return stored, promoted


def _naive_misses(size: Size) -> tuple[float, float]:
    """Share of candidates 0.10 better that the point estimate misses: at first, and later."""
    generator = np.random.default_rng(2)
    better = generator.binomial(100, BASELINE + 0.10, size.runs)
    fresh = generator.binomial(100, BASELINE, size.runs)
    late = _stored(size, BASELINE, seed=3)[0]
    return float(np.mean(better < fresh + 5)), float(np.mean(better < late + 5))


def _powers(size: Size) -> tuple[list[str], list[str]]:
    rule = GateRule(ALPHA, ALPHA)
    rows = []
    for phi in (0.0, 0.3, 0.6):
        for baseline, difference in (
            *((BASELINE, step) for step in (0.0, 0.05, 0.10, 0.15, 0.20, 0.30)),
            (0.5, 0.40),
        ):
            chances = Chances.of(baseline, difference, phi)
            if not chances.possible:
                continue
            drawn = chances.draw(size.simulated, rule.max_pairs, seed=10)
            rows.append(
                (
                    f"{phi}, {baseline} + {difference:.2f}",
                    _power(run_e_processes(rule, drawn)),
                    _power(run_gates(rule, drawn, never)),
                    _power(run_gates(rule, drawn)),
                    *(
                        f"{fixed_power(pairs, ALPHA, difference, chances.discordance):.2f}"
                        for pairs in (50, 100, 200)
                    ),
                )
            )
    header = (
        f"phi, baseline + difference; at most {rule.max_pairs} pairs",
        "e-process, power / mean pairs",
        "spending test",
        "the gate (with futility)",
        "fixed size 50",
        "100",
        "200",
    )
    return [table(header, rows)], [
        f"Powers are one-sided at {ALPHA}, from {size.simulated:,} simulated gates a row "
        "(standard error at most 0.005), looks after every 5 pairs; those of the fixed-size exact "
        "sign test (McNemar) are exact. Pairs that are this different and this correlated at "
        "once do not exist where a row is missing."
    ]


def _power(ends: Ends) -> str:
    return f"{ends.share(BETTER):.2f} / {ends.mean_pairs:.0f}"


def _replays(size: Size) -> tuple[list[str], list[str]]:
    rows = []
    generator = np.random.default_rng(40)
    for before, after in ((63, 69), (69, 72), (63, 72)):
        ends = []
        for _ in range(size.pairings):
            candidate, baseline = (
                generator.permutation([1] * count + [0] * (100 - count)).tolist()
                for count in (after, before)
            )
            differences = [a - b for a, b in zip(candidate, baseline, strict=True)]
            pairs = [Pair(one, float(one)) for one in differences]
            ends.append(Gate.start(GateRule(ALPHA, ALPHA, max_pairs=100)).observe(pairs))
        e_values = np.exp([end.last_look.log_e for end in ends])
        p_values = [end.last_look.p_value for end in ends]
        rows.append(
            (
                f"{before} → {after} of 100",
                f"{np.mean([end.state == 'better' for end in ends]):.1%}",
                f"{np.median(p_values):.2g} ({min(p_values):.2g} to {max(p_values):.2g})",
                f"{np.median(e_values):.2f}",
                f"{np.mean(e_values):.2f}",
                f"{np.mean([end.pairs for end in ends]):.0f}",
            )
        )
    header = (
        f"a published run, {size.pairings} random pairings each",
        "pairings that say better",
        "sequential p-value, median (range)",
        "e-value, median",
        "mean",
        "mean pairs to the end",
    )
    needed = [
        fixed_size(ALPHA, 0.8, 0.06, Chances.of(BASELINE, 0.06, phi).discordance)
        for phi in (0.0, 0.6)
    ]
    return [table(header, rows)], [
        "The run has only its totals published, so its episodes are paired at random, as "
        "independent trials would be; the mean of the e-values over pairings is an e-value "
        f"itself. To prove a true 0.63 against 0.69 with power 0.8, a fixed-size test needs "
        f"{min(needed)} (phi 0.6) to {max(needed)} pairs (phi 0)."
    ]


def _checked(size: Size) -> tuple[list[str], list[str]]:
    rule = GateRule(ALPHA, ALPHA)
    agreed = counted = 0
    for difference in (0.0, 0.15):
        drawn = Chances.of(BASELINE, difference, 0.3).draw(size.checked, rule.max_pairs, seed=50)
        ends = run_gates(rule, drawn)
        verdicts = {"better": BETTER, "worse": WORSE}
        for row, verdict, pairs in zip(drawn, ends.verdict, ends.pairs, strict=True):
            end = Gate.start(rule).observe(as_pairs(row))
            agreed += verdicts.get(end.state, 0) == verdict and end.pairs == pairs
            counted += 1
    return [], [
        "The simulations run the boundaries and the conditional power of `lefleet.stats` on many "
        f"gates at once; in {agreed} of {counted} of them the gate itself, pair by pair, ended "
        "with the same answer after the same number of pairs."
    ]
