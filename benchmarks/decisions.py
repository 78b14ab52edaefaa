"""Simulated gates: false promotions over whole runs, power, and pairs against fixed sizes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.equal_power import ALPHA, BASELINE, equal_power, giving_up
from benchmarks.gates import (
    BETTER,
    WORSE,
    Chances,
    Ends,
    Outcomes,
    as_pairs,
    exact_error,
    never,
    run_e_processes,
    run_gates,
)
from benchmarks.report import Section, table
from benchmarks.workshop import Workshop, say
from lefleet.stats import (
    Gate,
    GateRule,
    Pair,
    exact_interval,
    fixed_power,
    fixed_size,
    gate_alpha,
)

GATES = 10


class Size(NamedTuple):
    """How much of everything."""

    runs: int
    """Simulated runs of ten gates."""
    patterns: int
    """Of these: runs for which the exact error is computed."""
    simulated: int
    """Simulated gates for each power and mean."""
    pairings: int
    """Random pairings of a published result."""
    checked: int
    """Simulated gates that are also put through the gate itself."""


FULL = Size(runs=10_000, patterns=500, simulated=20_000, pairings=500, checked=200)
QUICK = Size(runs=50, patterns=5, simulated=50, pairings=3, checked=3)


def measure(workshop: Workshop) -> Section:
    size = QUICK if workshop.quick else FULL
    tables, remarks = [], []
    parts = {
        "whole runs": lambda: _whole_runs(size),
        "powers": lambda: _powers(size),
        "equal power": lambda: equal_power(size.simulated),
        "giving up": lambda: giving_up(size.simulated),
        "replays": lambda: _replays(size),
        "checks": lambda: _checked(size),
    }
    for name, part in parts.items():
        found, said = part()
        say(f"{name}: done")
        tables += found
        remarks += said
    return Section("false promotions, power and pairs of the gate", tuple(tables), tuple(remarks))


def _whole_runs(size: Size) -> tuple[list[str], list[str]]:
    rows, largest = [], 0.0
    scheduled = [GateRule(*[gate_alpha("run", ALPHA, [False] * gate)] * 2) for gate in range(GATES)]
    flat = [GateRule(ALPHA, ALPHA)] * GATES
    for baseline in (0.3, BASELINE, 0.9):
        for phi in (0.0, 0.6):
            chances = Chances.of(baseline, 0.0, phi)
            drawn = [chances.draw(size.runs, GateRule().max_pairs, seed) for seed in range(GATES)]
            promoted = _promoted(scheduled, drawn)
            # One-sided: the upper end of a 90 % interval.
            upper = exact_interval(int(promoted.sum()), size.runs, confidence=0.9)[1]
            largest = max(largest, upper)
            errors = [
                exact_error(rule, outcomes[: size.patterns])
                for rule, outcomes in zip(scheduled, drawn, strict=True)
            ]
            rows.append(
                (
                    f"{baseline}, {phi}",
                    f"{promoted.mean():.4f}",
                    f"{upper:.4f}",
                    f"{1 - np.prod(1 - np.array(errors)):.4f}",
                    f"{_promoted(flat, drawn).mean():.3f}",
                    f"{_stored(size, baseline, seed=1)[1].mean():.3f}",
                )
            )
    header = (
        f"any promotion in {size.runs:,} runs of {GATES} gates, candidate never better: rate, phi",
        "the gate, levels of the schedule",
        "exact 95 % upper limit",
        "without futility, exact",
        "the gate, 0.05 at every one",
        "+0.05 over 100 episodes, stored baseline",
    )
    kept = "is kept" if largest <= ALPHA else "is missed"
    at_once, later = _naive_misses(size)
    return [table(header, rows)], [
        f"The promise of at most {ALPHA} per run {kept}: the largest upper limit is "
        f"{largest:.4f}. The rate is that of both policies, phi the correlation of their outcomes "
        "on the same seed. Futility only lowers the error; the exact chance without it is given "
        "which pairs differ, averaged over simulated ones. The last column is the rule of other "
        "loops: promote when 100 episodes show 0.05 more than the stored rate, then store the new "
        f"one. It misses a candidate that is 0.10 better in {at_once:.0%} of the cases, and in "
        f"{later:.0%} after ten cycles without progress, because what it stores only goes up."
    ]


def _promoted(rules: Sequence[GateRule], drawn: Sequence[Outcomes]) -> NDArray[np.bool_]:
    """Of each run: whether any gate said better."""
    said = [
        run_gates(rule, outcomes).verdict == BETTER
        for rule, outcomes in zip(rules, drawn, strict=True)
    ]
    return np.any(said, axis=0)


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
        "(standard error at most 0.004), looks after every 5 pairs; those of the fixed-size exact "
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
