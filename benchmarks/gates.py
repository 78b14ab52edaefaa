"""Simulated gates, thousands side by side, decided by `lefleet.stats`."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lefleet.stats import GateRule, Pair
from lefleet.stats.evalue import UniformMixture
from lefleet.stats.futility import conditional_power, critical_of_spending, is_futile
from lefleet.stats.sign_test import Spending

type Outcomes = NDArray[np.int8]
type GiveUp = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]

BETTER, WORSE, NEITHER = 1, -1, 0


class Chances(NamedTuple):
    """Of a pair: only the candidate succeeds, only the baseline does."""

    win: float
    loss: float

    @classmethod
    def of(cls, baseline: float, difference: float, phi: float) -> "Chances":
        """Success rates `baseline` and `baseline + difference`, correlated by `phi`."""
        candidate = baseline + difference
        spread = sqrt(candidate * (1 - candidate) * baseline * (1 - baseline))
        both = candidate * baseline + phi * spread
        return cls(candidate - both, baseline - both)

    @property
    def possible(self) -> bool:
        return min(self) >= 0

    @property
    def discordance(self) -> float:
        return self.win + self.loss

    def draw(self, runs: int, pairs: int, seed: int) -> Outcomes:
        """1 for a win, -1 for a loss, 0 for an equal pair."""
        drawn = np.random.default_rng(seed).random((runs, pairs), dtype=np.float32)
        won, lost = drawn < self.win, drawn > 1 - self.loss
        return won.astype(np.int8) - lost.astype(np.int8)


class Ends(NamedTuple):
    """How gates ended, one entry each."""

    verdict: NDArray[np.int64]
    pairs: NDArray[np.int64]

    def share(self, verdict: int) -> float:
        return float(np.mean(self.verdict == verdict))

    @property
    def mean_pairs(self) -> float:
        return float(np.mean(self.pairs))


def as_the_gate(rule: GateRule) -> GiveUp:
    return lambda power, power_worse: is_futile(power, power_worse, rule.futility_below)


def never(power: NDArray[np.float64], _: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.zeros(len(power), dtype=bool)


def run_gates(
    rule: GateRule,
    outcomes: Outcomes,
    give_up: GiveUp | None = None,
    rates: NDArray[np.float64] | None = None,
) -> Ends:
    """The gate of `rule` on every row; `rates` are those of the baselines, where they are known.

    Only the interval that shows a difference below `min_effect` is left out: it would end some
    gates without an answer a little earlier.
    """
    give_up = give_up or as_the_gate(rule)
    runs, pairs = outcomes.shape
    assert pairs == rule.max_pairs
    wins = np.cumsum(outcomes == 1, axis=1, dtype=np.int64)
    losses = np.cumsum(outcomes == -1, axis=1, dtype=np.int64)
    ends = Ends(np.full(runs, NEITHER), np.full(runs, pairs))
    running = np.arange(runs)
    wins_test = Spending.start(rule.alpha_better, pairs, runs)
    is_one_level = rule.alpha_better == rule.alpha_worse
    losses_test = wins_test if is_one_level else Spending.start(rule.alpha_worse, pairs, runs)
    room = np.ones(runs) if rates is None else 1.0 - rates
    room_worse = np.ones(runs) if rates is None else rates
    for look in filter(rule.is_look, range(1, pairs + 1)):
        won, lost = wins[running, look - 1], losses[running, look - 1]
        wins_test = wins_test.look(look, won + lost)
        losses_test = wins_test if is_one_level else losses_test.look(look, won + lost)
        better, worse = won >= wins_test.boundary, lost >= losses_test.boundary
        power, power_worse = (
            conditional_power(
                lead,
                won + lost,
                look,
                pairs - look,
                min_effect=np.minimum(rule.min_effect, limit[running]),
                critical=critical_of_spending(alpha),
            )
            for lead, limit, alpha in (
                (won - lost, room, rule.alpha_better),
                (lost - won, room_worse, rule.alpha_worse),
            )
        )
        over = better | worse | (give_up(power, power_worse) & (look < pairs))
        ends.verdict[running[better]] = BETTER
        ends.verdict[running[worse]] = WORSE
        ends.pairs[running[over]] = look
        running = running[~over]
        if not len(running):
            break
        wins_test = _rows(wins_test, ~over)
        losses_test = wins_test if is_one_level else _rows(losses_test, ~over)
    return ends


def exact_error(rule: GateRule, outcomes: Outcomes) -> float:
    """Chance of a wrong "better" without futility: exact for the pairs that differ, then averaged.

    Given which pairs differ, it is what the test has spent; the outcomes are only used for that.
    """
    discordant = np.cumsum(outcomes != 0, axis=1, dtype=np.int64)
    spending = Spending.start(rule.alpha_better, rule.max_pairs, len(outcomes))
    for look in filter(rule.is_look, range(1, rule.max_pairs + 1)):
        spending = spending.look(look, discordant[:, look - 1])
    return float(np.mean(spending.spent))


def run_e_processes(rule: GateRule, outcomes: Outcomes) -> Ends:
    """Better as soon as the uniform mixture's e-value reaches 1 / alpha at a look."""
    looks = np.array([look for look in range(1, rule.max_pairs + 1) if rule.is_look(look)])
    wins = np.cumsum(outcomes == 1, axis=1, dtype=np.int64)[:, looks - 1]
    losses = np.cumsum(outcomes == -1, axis=1, dtype=np.int64)[:, looks - 1]
    reached = log_e_values(rule.max_pairs)[wins, losses] >= log(1 / rule.alpha_better)
    crossed = reached.any(axis=1)
    pairs = np.where(crossed, looks[reached.argmax(axis=1)], rule.max_pairs)
    return Ends(np.where(crossed, BETTER, NEITHER), pairs)


@cache
def log_e_values(pairs: int) -> NDArray[np.float64]:
    """By wins and losses."""
    table = np.zeros((pairs + 1, pairs + 1))
    first = UniformMixture()
    for wins in range(pairs + 1):
        mixture = first
        for losses in range(pairs + 1 - wins):
            table[wins, losses] = mixture.log_e
            mixture = mixture.lost()
        first = first.won()
    return table


def as_pairs(row: Outcomes) -> list[Pair]:
    return [Pair(int(value), float(value)) for value in row]


def _rows(spending: Spending, kept: NDArray[np.bool_]) -> Spending:
    every = {field.name: getattr(spending, field.name) for field in fields(spending)}
    arrays = {name: value[kept] for name, value in every.items() if isinstance(value, np.ndarray)}
    return replace(spending, **arrays)
