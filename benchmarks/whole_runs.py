"""Whole runs of gates with the levels of `lefleet.stats`: false promotions, and the demo's end."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.equal_power import ALPHA
from benchmarks.gates import BETTER, Chances, Outcomes, as_pairs, exact_error, run_gates
from benchmarks.report import table
from lefleet.records import GateLevel
from lefleet.stats import Gate, GateRule, exact_interval, gate_level, has_room

GATES = 10
BLOCK = 60
"""Episodes of the fixed block that the room is taken from."""
PAIRS = 100
GAIN = 0.6
"""Of the room above the baseline, by which a candidate that is better is better."""
NULL, BETTER_ONE = "0", "+"

type Rates = NDArray[np.float64]


class Story(NamedTuple):
    """What the candidates of a run are, one letter each: as good as the baseline, or better."""

    name: str
    planned: int
    candidates: str


STORIES = (
    Story("never better", GATES, NULL * GATES),
    Story("never better, extended beyond 2 planned gates", 2, NULL * GATES),
    Story("a gain, then never", GATES, "+" + NULL * (GATES - 1)),
    Story("gains between", GATES, "0+00+00000"),
    Story("late gains", GATES, "000000+0+0"),
    Story("both planned gates gain, then extended", 2, "++" + NULL * (GATES - 2)),
    Story("gains before and after the plan ends", 2, "+0+0+00000"),
)
SETTINGS = ((0.3, 0.0), (0.63, 0.6), (0.9, 0.0))
"""Rate of the first baseline, and correlation within a pair."""


class SimulatedRun(NamedTuple):
    """How simulated runs went, one entry each."""

    is_false: NDArray[np.bool_]
    """Whether any candidate that is not better was promoted."""
    gains: NDArray[np.int64]
    """Promotions of better ones."""
    has_no_room: NDArray[np.bool_]
    """Whether the run ended because there was no room for another gate."""


def simulate(story: Story, rate: float, phi: float, runs: int, seed: int) -> SimulatedRun:
    """Runs of the gate with default settings; a run ends with its first false promotion, or where
    there is no room for another gate."""
    generator = np.random.default_rng(seed)
    rule = GateRule(max_pairs=PAIRS, min_effect=0.15)
    rates = np.full(runs, rate)
    shown = generator.binomial(BLOCK, rates)
    verdicts = np.full((runs, len(story.candidates)), -1, dtype=np.int8)
    is_false = np.zeros(runs, dtype=bool)
    for number, candidate in enumerate(story.candidates):
        gain = GAIN * (1.0 - rates) if candidate == BETTER_ONE else np.zeros(runs)
        outcomes = _drawn(rates, gain, phi, rule.max_pairs, generator)
        for rows, level in _by_level(story.planned, verdicts[:, :number], shown, ~is_false, rule):
            leveled = replace(rule, alpha_better=level.better, alpha_worse=level.worse)
            ends = run_gates(leveled, outcomes[rows], rates=(shown[rows] + 1) / (BLOCK + 2))
            verdicts[rows, number] = ends.verdict == BETTER
        is_better = verdicts[:, number] == 1
        if candidate == NULL:
            is_false |= is_better
        else:
            rates = np.where(is_better, rates + gain, rates)
            shown = np.where(is_better, generator.binomial(BLOCK, rates), shown)
    is_gain = np.array([one == BETTER_ONE for one in story.candidates])
    gains = np.sum((verdicts == 1) & is_gain, axis=1)
    return SimulatedRun(is_false, gains, ~is_false & np.any(verdicts == -1, axis=1))


def _by_level(
    planned: int,
    verdicts: NDArray[np.int8],
    shown: NDArray[np.int64],
    alive: NDArray[np.bool_],
    rule: GateRule,
) -> Iterator[tuple[NDArray[np.int64], GateLevel]]:
    """Rows whose next gate begins, and its level; -1 stands for a gate that did not begin. It has
    passed nothing on and the baseline stays, so that no later one begins either."""
    for history in np.unique(verdicts[alive], axis=0):
        level = gate_level("run", ALPHA, planned, [bool(one) for one in history if one >= 0])
        rows = np.flatnonzero(alive & np.all(verdicts == history, axis=1))
        room = {
            int(count): has_room(level.better, 1 - (count + 1) / (BLOCK + 2), rule.max_pairs)
            for count in np.unique(shown[rows])
        }
        begun = rows[[room[int(count)] for count in shown[rows]]]
        if len(begun):
            yield begun, level


def _drawn(
    baseline: Rates, gain: Rates, phi: float, pairs: int, generator: np.random.Generator
) -> Outcomes:
    candidate = baseline + gain
    spread = np.sqrt(candidate * (1 - candidate) * baseline * (1 - baseline))
    both = np.minimum(candidate * baseline + phi * spread, baseline)
    drawn = generator.random((len(baseline), pairs), dtype=np.float32)
    won = drawn < (candidate - both)[:, None]
    lost = drawn > (1 - (baseline - both))[:, None]
    return won.astype(np.int8) - lost.astype(np.int8)


def run_promise(runs: int, patterns: int) -> tuple[list[str], list[str]]:
    rows, largest = [], 0.0
    for story in STORIES:
        uppers, shares, gains, ended = [], [], [], []
        for seed, (rate, phi) in enumerate(SETTINGS):
            found = simulate(story, rate, phi, runs, 100 + seed)
            # One-sided: the upper end of a 90 % interval.
            uppers.append(exact_interval(int(found.is_false.sum()), runs, confidence=0.9)[1])
            shares.append(float(found.is_false.mean()))
            gains.append(float(found.gains.mean()))
            ended.append(float(found.has_no_room.mean()))
        largest = max(largest, *uppers)
        count = story.candidates.count(BETTER_ONE)
        rows.append(
            (
                f"{story.name}: {story.candidates}",
                str(story.planned),
                f"{min(shares):.4f} to {max(shares):.4f}",
                f"{max(uppers):.4f}",
                f"{np.mean(gains):.1f} of {count}" if count else "",
                f"{np.mean(ended):.2f}",
            )
        )
    header = (
        f"{runs:,} runs of {GATES} gates each (0 no better, + better)",
        "gates planned",
        "any false promotion, three settings",
        "largest exact 95 % upper limit",
        "true promotions",
        "ended without room",
    )
    kept = "is kept" if largest <= ALPHA else "is missed"
    exact, worst = _exact(patterns)
    said = [
        f"The promise of at most {ALPHA} per run {kept}: the largest upper limit is "
        f"{largest:.4f}. Settings are a first rate of 0.3 or 0.9 without correlation of outcomes "
        f"on the same seed, and of 0.63 with 0.6. A better candidate gains {GAIN:.0%} of the room "
        f"above the baseline; the room is estimated from {BLOCK} episodes; at most {PAIRS} pairs, "
        "min_effect 0.15. The second table needs no luck: given which pairs differ, the chance of "
        "a wrong better without futility is known exactly, and is averaged over simulated "
        "patterns; the composition of gates is computed for the worst order of better and equal "
        f"candidates, each better one promoted for certain. The largest chance is {worst:.4f}. "
        "Futility and room only end gates earlier, and so only lower it."
    ]
    return [table(header, rows), exact], said


def _exact(patterns: int) -> tuple[str, float]:
    """For each plan the chance of any false promotion in the worst order of candidates."""
    rows, largest = [], 0.0
    for planned, gates in ((1, GATES), (2, 2), (2, GATES), (5, GATES), (GATES, GATES)):
        shares = [gate_level("run", ALPHA, planned, [False] * gate).share for gate in range(gates)]
        worst, order = 0.0, ""
        for rate, phi in SETTINGS:
            chance, candidates = _worst(tuple(shares), rate, phi, patterns)
            if chance > worst:
                worst, order = chance, candidates
        largest = max(largest, worst)
        rows.append((f"{planned} of {gates}", f"{sum(shares):.4f}", f"{worst:.4f}", order))
    header = (
        "gates planned, of all",
        "sum of the shares",
        "any false promotion, worst order, exact",
        "that order",
    )
    return table(header, rows), largest


def _worst(shares: tuple[float, ...], rate: float, phi: float, patterns: int) -> tuple[float, str]:
    """Largest chance of any false promotion over all orders of candidates, and that order."""

    @cache
    def after(gate: int, passed_on: float) -> tuple[float, str]:
        if gate == len(shares):
            return 0.0, ""
        level = shares[gate] + passed_on
        error = _error(level, rate, phi, patterns)
        rest, order = after(gate + 1, 0.0)
        null = error + (1.0 - error) * rest, NULL + order
        gain, order = after(gate + 1, level)
        return max(null, (gain, BETTER_ONE + order))

    return after(0, 0.0)


@cache
def _error(level: float, rate: float, phi: float, patterns: int) -> float:
    rule = GateRule(alpha_better=level)
    drawn = Chances.of(rate, 0.0, phi).draw(patterns, rule.max_pairs, seed=60)
    return exact_error(rule, drawn)


DEMO = (0.33, 0.87, 1.0)
DEMO_RULE = GateRule(max_pairs=60, min_effect=0.3)
DEMO_TARGET = 0.8


def demo_end(runs: int) -> tuple[list[str], list[str]]:
    """The demo's two gates, pair by pair through the gate itself."""
    generator = np.random.default_rng(70)
    ends = [_demo_run(generator) for _ in range(runs)]
    promoted = [[end.state == "better" for end in gates] for gates in ends]
    last = float(np.mean([run[-1] for run in promoted]))
    met = "met" if last >= DEMO_TARGET else "missed"
    rows = [
        (
            f"{DEMO[gate]:.2f} → {DEMO[gate + 1]:.2f}",
            f"{np.mean([run[gate] for run in promoted]):.3f}",
            f"{np.mean([gates[gate].pairs for gates in ends]):.0f}",
        )
        for gate in range(len(DEMO) - 1)
    ]
    header = (f"the demo's gates, {runs:,} runs", "promoted", "mean pairs")
    return [table(header, rows)], [
        f"With the demo's gate settings (at most {DEMO_RULE.max_pairs} pairs, min_effect "
        f"{DEMO_RULE.min_effect}, alpha {ALPHA}) its last checkpoint is promoted in {last:.1%} of "
        f"the runs: the target of {DEMO_TARGET:.0%} is {met}."
    ]


def _demo_run(generator: np.random.Generator) -> list[Gate]:
    baseline, verdicts, gates = DEMO[0], [], []
    for candidate in DEMO[1:]:
        level = gate_level("run", ALPHA, len(DEMO) - 1, verdicts)
        rate = (generator.binomial(BLOCK, baseline) + 1) / (BLOCK + 2)
        rule = replace(
            DEMO_RULE,
            alpha_better=level.better,
            alpha_worse=level.worse,
            baseline_rate=float(rate),
        )
        gate = Gate.start(rule)
        if has_room(level.better, 1 - rate, rule.max_pairs):
            ours, theirs = (
                generator.random(rule.max_pairs) < rate for rate in (candidate, baseline)
            )
            gate = gate.observe(as_pairs(ours.astype(np.int8) - theirs.astype(np.int8)))
            verdicts.append(gate.state == "better")
        gates.append(gate)
        baseline = candidate if gate.state == "better" else baseline
    return gates
