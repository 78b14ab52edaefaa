"""The gate: pairs in, a decision out as soon as there is one.

A gate looks after every `look_every` pairs and at `max_pairs`, never in between, so its decision
depends on the order of the pairs and not on how they arrive. Once decided, it stays decided.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

from lefleet.errors import BadInput
from lefleet.records import GateLook
from lefleet.records.fields import Metric
from lefleet.stats.evalue import EProcess
from lefleet.stats.futility import (
    conditional_power,
    critical_of_betting,
    critical_of_spending,
    is_futile,
    is_refuted,
)
from lefleet.stats.inputs import Pair, require_alpha, require_count, require_share
from lefleet.stats.intervals import ConfidenceSequence
from lefleet.stats.sign_test import SignTest

if TYPE_CHECKING:
    from lefleet.stats.sign_test import Floats

type State = Literal["better", "worse", "futile", "exhausted", "undecided"]


@dataclass(frozen=True)
class GateRule:
    """How a gate decides, fixed before its first pair."""

    alpha_better: float = 0.05
    """Largest chance of a wrong "better"."""
    alpha_worse: float = 0.05
    """Largest chance of a wrong "worse"."""
    max_pairs: int = 200
    min_effect: float = 0.1
    """Smallest difference that matters: a gate gives up when it can no longer prove it."""
    look_every: int = 5
    metric: Metric = "success"
    futility_below: float = 0.1
    """Conditional power below which a gate gives up. At 0 it never does, as is right for pairs that
    are there already."""
    confidence: float = 0.95
    """Of the interval of the difference."""
    baseline_rate: float | None = None
    """Expected outcome of the baseline, where it is known. It limits what can be shown."""

    def __post_init__(self) -> None:
        require_alpha(self.alpha_better, "alpha_better")
        require_alpha(self.alpha_worse, "alpha_worse")
        require_count("max_pairs", self.max_pairs)
        require_share("min_effect", self.min_effect)
        require_count("look_every", self.look_every)
        require_share("confidence", self.confidence)
        if self.baseline_rate is not None:
            require_share("baseline_rate", self.baseline_rate)
        if self.metric not in ("success", "progress"):
            raise BadInput(
                f"metric: must be success or progress, got {self.metric}.",
                "The default is success.",
            )
        if not 0.0 <= self.futility_below < 1.0:
            raise BadInput(
                f"futility_below: must lie from 0 to below 1, got {self.futility_below}.",
                "The usual one is 0.1.",
            )

    @property
    def effect_better(self) -> float:
        """Improvement that the gate goes on for: `min_effect`, or the room above the baseline."""
        rate = self.baseline_rate
        return self.min_effect if rate is None else min(self.min_effect, 1.0 - rate)

    @property
    def effect_worse(self) -> float:
        """The same for a loss: `min_effect`, or the room below the baseline."""
        rate = self.baseline_rate
        return self.min_effect if rate is None else min(self.min_effect, rate)

    def is_look(self, pairs: int) -> bool:
        return pairs % self.look_every == 0 or pairs == self.max_pairs


@dataclass(frozen=True, eq=False)
class Gate:
    """A gate under way. `observe` returns the gate after more pairs and leaves this one alone."""

    rule: GateRule
    wins_test: SignTest
    losses_test: SignTest
    """Both judge success; unused where progress counts."""
    better: EProcess
    worse: EProcess
    sequence: ConfidenceSequence
    state: State = "undecided"
    pairs: int = 0
    wins: int = 0
    losses: int = 0
    lead: float = 0.0
    """Sum of the differences that count."""
    squares: float = 0.0
    looks: tuple[GateLook, ...] = ()

    @classmethod
    def start(cls, rule: GateRule) -> Self:
        side = EProcess.start(graded=rule.metric == "progress")
        return cls(
            rule,
            SignTest.start(rule.alpha_better, rule.max_pairs),
            SignTest.start(rule.alpha_worse, rule.max_pairs),
            side,
            side,
            ConfidenceSequence.start(rule.confidence, rule.max_pairs),
        )

    @property
    def decided(self) -> bool:
        return self.state != "undecided"

    def observe(self, pairs: Iterable[Pair]) -> "Gate":
        """In the order that was fixed beforehand; pairs after the decision change nothing."""
        gate = self
        for pair in pairs:
            gate = gate if gate.decided else _after(gate, pair)
        return gate

    @property
    def difference(self) -> float:
        """Candidate minus baseline, per pair."""
        return self.lead / self.pairs if self.pairs else 0.0

    @property
    def last_look(self) -> GateLook:
        """The evidence that counts; before the first look there is none."""
        return self.looks[-1] if self.looks else _NO_LOOK


_NO_LOOK = GateLook(
    pairs=0,
    wins=0,
    losses=0,
    log_e=0.0,
    p_value=1.0,
    p_worse=1.0,
    interval=(-1.0, 1.0),
    power=1.0,
)


def _after(gate: Gate, pair: Pair) -> Gate:
    """The gate after one more pair, and after the look that is due with it."""
    rule = gate.rule
    counts = pair.difference if rule.metric == "success" else pair.gain
    after = replace(
        gate,
        better=gate.better.observe(pair),
        worse=gate.worse.observe(pair.mirrored),
        sequence=gate.sequence.observe(counts),
        pairs=gate.pairs + 1,
        wins=gate.wins + (pair.difference > 0),
        losses=gate.losses + (pair.difference < 0),
        lead=gate.lead + counts,
        squares=gate.squares + counts**2,
    )
    return _looked(after) if rule.is_look(after.pairs) else after


def _looked(gate: Gate) -> Gate:
    rule, wins_test, losses_test = gate.rule, gate.wins_test, gate.losses_test
    p_value, p_worse = gate.better.p_value, gate.worse.p_value
    if rule.metric == "success":
        wins_test = wins_test.look(gate.pairs, gate.wins, gate.losses)
        losses_test = losses_test.look(gate.pairs, gate.losses, gate.wins)
        p_value, p_worse = wins_test.p_value, losses_test.p_value
    power = _conditional_power(gate, gate.lead, rule.effect_better, rule.alpha_better)
    power_worse = _conditional_power(gate, -gate.lead, rule.effect_worse, rule.alpha_worse)
    look = GateLook(
        pairs=gate.pairs,
        wins=gate.wins,
        losses=gate.losses,
        log_e=gate.better.log_e,
        p_value=p_value,
        p_worse=p_worse,
        interval=gate.sequence.interval,
        power=float(power),
    )
    hopeless = bool(is_futile(power, power_worse, rule.futility_below))
    state = _verdict(rule, look, gate.lead, hopeless=hopeless)
    return replace(
        gate,
        wins_test=wins_test,
        losses_test=losses_test,
        state=state,
        looks=(*gate.looks, look),
    )


def _conditional_power(gate: Gate, lead: float, effect: float, alpha: float) -> "Floats":
    rule = gate.rule
    critical = critical_of_spending if rule.metric == "success" else critical_of_betting
    return conditional_power(
        lead,
        gate.squares,
        gate.pairs,
        rule.max_pairs - gate.pairs,
        min_effect=effect,
        critical=critical(alpha),
    )


def _verdict(rule: GateRule, look: GateLook, lead: float, *, hopeless: bool) -> State:
    better, worse = look.p_value <= rule.alpha_better, look.p_worse <= rule.alpha_worse
    if better or worse:
        stronger = look.p_value <= look.p_worse
        proven: State = "better" if better and (stronger or not worse) else "worse"
        # Progress is judged together with success: where they contradict, nothing is proven.
        if rule.metric == "success" or (lead > 0 if proven == "better" else lead < 0):
            return proven
    if look.pairs == rule.max_pairs:
        return "exhausted"
    refuted = rule.futility_below > 0 and is_refuted(
        look.interval, rule.effect_better, rule.effect_worse
    )
    return "futile" if hopeless or refuted else "undecided"
