"""The gate: pairs in, a decision out as soon as there is one.

A gate looks after every `look_every` pairs and at `max_pairs`, never in between, so its decision
depends on the order of the pairs and not on how they arrive. Once decided, it stays decided.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from lefleet.errors import BadInput
from lefleet.stats.checks import require_alpha, require_count, require_share
from lefleet.stats.evalue import Evidence
from lefleet.stats.futility import (
    conditional_power,
    critical_of_betting,
    critical_of_spending,
    is_futile,
    is_refuted,
)
from lefleet.stats.pairing import Pair
from lefleet.stats.sequence import ConfidenceSequence
from lefleet.stats.spending import SignTest

if TYPE_CHECKING:
    from lefleet.stats.null_mass import Floats

type State = Literal["better", "worse", "futile", "exhausted", "undecided"]
type Metric = Literal["success", "progress"]


@dataclass(frozen=True)
class GateRule:
    """How a gate decides, fixed before its first pair."""

    alpha: float = 0.05
    """Largest chance of a wrong "better", and of a wrong "worse"."""
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

    def __post_init__(self) -> None:
        require_alpha(self.alpha)
        require_count("max_pairs", self.max_pairs)
        require_share("min_effect", self.min_effect)
        require_count("look_every", self.look_every)
        require_share("confidence", self.confidence)
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

    def is_look(self, pairs: int) -> bool:
        return pairs % self.look_every == 0 or pairs == self.max_pairs


class Look(NamedTuple):
    """The evidence at one look."""

    pairs: int
    wins: int
    losses: int
    log_e: float
    """Natural logarithm of the e-value that the candidate is better."""
    p_value: float
    """That the candidate is better; sequential, valid at every look."""
    p_worse: float
    interval: tuple[float, float]
    """Confidence sequence of the difference."""
    conditional_power: float
    """Chance to prove better from here if the difference is `min_effect`."""
    conditional_power_worse: float


class Assessment(NamedTuple):
    """What a gate has come to. Values of the evidence are those of the last look."""

    state: State
    pairs: int
    wins: int
    """Pairs in which only the candidate succeeded."""
    losses: int
    difference: float
    """Candidate minus baseline, per pair."""
    log_e: float
    p_value: float
    p_worse: float
    interval: tuple[float, float]
    path: tuple[Look, ...]


@dataclass(frozen=True, eq=False)
class Gate:
    """A gate under way. `observe` returns the gate after more pairs and leaves this one alone."""

    rule: GateRule
    test: SignTest
    """Judges success; unused where progress counts."""
    better: Evidence
    worse: Evidence
    sequence: ConfidenceSequence
    state: State = "undecided"
    pairs: int = 0
    wins: int = 0
    losses: int = 0
    lead: float = 0.0
    """Sum of the differences that count."""
    squares: float = 0.0
    path: tuple[Look, ...] = ()

    @classmethod
    def start(cls, rule: GateRule) -> Self:
        side = Evidence.start(graded=rule.metric == "progress")
        return cls(
            rule,
            SignTest.start(rule.alpha, rule.max_pairs),
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

    def assessment(self) -> Assessment:
        last = self.path[-1] if self.path else None
        return Assessment(
            state=self.state,
            pairs=self.pairs,
            wins=self.wins,
            losses=self.losses,
            difference=self.lead / self.pairs if self.pairs else 0.0,
            log_e=last.log_e if last else 0.0,
            p_value=last.p_value if last else 1.0,
            p_worse=last.p_worse if last else 1.0,
            interval=last.interval if last else (-1.0, 1.0),
            path=self.path,
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
    test, p_value, p_worse = gate.test, gate.better.p_value, gate.worse.p_value
    if gate.rule.metric == "success":
        test = test.look(gate.pairs, gate.wins, gate.losses)
        p_value, p_worse = test.p_better, test.p_worse
    power, power_worse = (_conditional_power(gate, lead) for lead in (gate.lead, -gate.lead))
    look = Look(
        gate.pairs,
        gate.wins,
        gate.losses,
        gate.better.log_e,
        p_value,
        p_worse,
        gate.sequence.interval,
        float(power),
        float(power_worse),
    )
    hopeless = bool(is_futile(power, power_worse, gate.rule.futility_below))
    state = _verdict(gate.rule, look, gate.lead, hopeless=hopeless)
    return replace(gate, test=test, state=state, path=(*gate.path, look))


def _conditional_power(gate: Gate, lead: float) -> "Floats":
    rule = gate.rule
    critical = critical_of_spending if rule.metric == "success" else critical_of_betting
    return conditional_power(
        lead,
        gate.squares,
        gate.pairs,
        rule.max_pairs - gate.pairs,
        min_effect=rule.min_effect,
        critical=critical(rule.alpha),
    )


def _verdict(rule: GateRule, look: Look, lead: float, *, hopeless: bool) -> State:
    if min(look.p_value, look.p_worse) <= rule.alpha:
        proven: State = "better" if look.p_value <= look.p_worse else "worse"
        # Progress is judged together with success: where they contradict, nothing is proven.
        if rule.metric == "success" or (lead > 0 if proven == "better" else lead < 0):
            return proven
    if look.pairs == rule.max_pairs:
        return "exhausted"
    refuted = rule.futility_below > 0 and is_refuted(look.interval, rule.min_effect)
    return "futile" if hopeless or refuted else "undecided"


def assess(rule: GateRule, outcomes: Iterable[Pair]) -> Assessment:
    """A whole gate at once: the same as a gate that saw these pairs one after the other."""
    return Gate.start(rule).observe(outcomes).assessment()
