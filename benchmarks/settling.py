"""Simulated comparisons: is the number of pairs right that an inconclusive answer asks for?"""

from functools import cache

import numpy as np

from benchmarks.gates import BETTER, NEITHER, Chances, never, run_gates
from benchmarks.report import table
from lefleet.stats import Gate, GateRule, Pair, needed_pairs

SEEN = 60
"""Pairs of the inconclusive comparisons."""


def settling(simulated: int) -> tuple[list[str], list[str]]:
    found, powers = [], []
    for alpha in (0.05, 0.01):
        for chances in (
            Chances(0.50, 0.20),
            Chances(0.30, 0.10),
            Chances(0.20, 0.10),
            Chances(0.15, 0.00),
            Chances(0.25, 0.18),
        ):
            row, power = _at_the_truth(simulated, alpha, chances)
            found.append(row)
            powers.append(power)
    for gain in (0.1, 0.2):
        row, power = _progress(max(simulated // 50, 3), gain)
        found.append(row)
        powers.append(power)
    at_the_truth = table(
        ("alpha; won, lost per pair", "pairs asked for", "power with these", "mean pairs used"),
        found,
    )
    from_data = table(
        (
            f"won, lost per pair; {SEEN} pairs without a clear answer",
            "share of such answers",
            "asked for at the true difference",
            "asked for at the difference seen: quartiles",
        ),
        [_from_data(simulated, *of) for of in ((0.30, 0.20), (0.25, 0.05), (0.20, 0.20))],
    )
    return [at_the_truth, from_data], [
        "`compare` asks for as many pairs as show the difference seen so far with a power of 0.8. "
        f"With that many pairs the power is {min(powers):.2f} to {max(powers):.2f} where the "
        "difference seen is the true one (no futility, looks after every 5 pairs). But the "
        f"difference seen in {SEEN} pairs without a clear answer is uncertain, and so is the "
        "number: half of them lie between the quartiles."
    ]


def _at_the_truth(simulated: int, alpha: float, chances: Chances) -> tuple[tuple[str, ...], float]:
    pairs = needed_pairs(alpha, chances.win - chances.loss, chances.discordance, "success")
    rule = GateRule(alpha_better=alpha, alpha_worse=alpha, max_pairs=pairs)
    runs = max(simulated * 60 // max(pairs, 60), 3)
    ends = run_gates(rule, chances.draw(runs, pairs, seed=150), never)
    power = ends.share(BETTER)
    name = f"{alpha}; {chances.win}, {chances.loss}"
    return (name, str(pairs), f"{power:.2f}", f"{ends.mean_pairs:.0f}"), power


def _progress(runs: int, gain: float) -> tuple[tuple[str, ...], float]:
    """Progress that differs by a normal amount, no success: through the gate itself."""
    generator = np.random.default_rng(160)
    spread = 0.3
    pairs = needed_pairs(0.05, gain, gain**2 + spread**2, "progress")
    rule = GateRule(max_pairs=pairs, metric="progress", futility_below=0.0)
    ends = [
        Gate.start(rule).observe(
            Pair(0, float(one)) for one in np.clip(generator.normal(gain, spread, pairs), -1, 1)
        )
        for _ in range(runs)
    ]
    power = float(np.mean([end.state == "better" for end in ends]))
    used = np.mean([end.pairs for end in ends])
    name = f"0.05; progress {gain} ± {spread}"
    return (name, str(pairs), f"{power:.2f}", f"{used:.0f}"), power


def _from_data(simulated: int, win: float, loss: float) -> tuple[str, ...]:
    chances = Chances(win, loss)
    drawn = chances.draw(simulated, SEEN, seed=170)
    rule = GateRule(max_pairs=SEEN)
    unclear = drawn[run_gates(rule, drawn, never).verdict == NEITHER]
    asked = [
        _asked(int(np.sum(row == 1)), int(np.sum(row == -1))) for row in unclear if np.sum(row) != 0
    ]
    quartiles = [f"{value:,.0f}" for value in np.percentile(asked or [0], (25, 50, 75))]
    true = needed_pairs(0.05, win - loss, chances.discordance, "success")
    return (
        f"{win}, {loss}",
        f"{len(unclear) / simulated:.2f}",
        f"{true:,}" if win != loss else "–",
        " / ".join(quartiles),
    )


@cache
def _asked(wins: int, losses: int) -> int:
    return needed_pairs(0.05, (wins - losses) / SEEN, (wins + losses) / SEEN, "success")
