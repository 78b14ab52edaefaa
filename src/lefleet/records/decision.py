"""What was decided about a candidate, and on what evidence."""

from typing import Literal

from lefleet.records.border import Strict
from lefleet.records.compare import Ended, Verdict

Outcome = Literal["baseline", "promote", "iterate", "escalate", "rollback", "stop"]


class GateEvidence(Strict, frozen=True, kw_only=True):
    """Candidate against baseline on the same fresh seeds."""

    verdict: Verdict
    ended: Ended
    pairs: int
    wins: int
    """Pairs in which only the candidate succeeded."""
    losses: int
    """Pairs in which only the baseline succeeded."""
    e_value: float
    """For "better"."""
    p_value: float
    """For "better"; sequential."""
    p_worse: float
    difference: float
    interval: tuple[float, float]
    """Confidence sequence of the difference."""
    alpha: float
    """Level of this gate."""
    number: int
    """This is the run's gate number so and so, from 1."""
    max_pairs: int
    min_effect: float
    fixed_pairs: int | None
    """Pairs that a test of fixed size would have needed."""
    worse_tasks: tuple[str, ...] = ()
    """Tasks that were shown to have become worse."""


class Decision(Strict, frozen=True, kw_only=True):
    """One cycle's decision."""

    cycle: int
    decision: Outcome
    why: str
    rung: int
    """Rung of the policy ladder that the candidate was trained on."""
    candidate: str
    """Digest of the candidate."""
    blessed: str
    """Digest of the blessed checkpoint from now on, empty when there is none yet."""
    gate: GateEvidence | None = None
    diagnosis: tuple[str, ...] = ()
    """What to look at, where nothing works yet."""
