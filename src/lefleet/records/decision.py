"""What was decided about a candidate, and on what evidence."""

from typing import Literal

from lefleet.records.border import Strict

Verdict = Literal["better", "worse", "inconclusive"]
Outcome = Literal["baseline", "promote", "iterate", "escalate", "rollback", "stop"]


class GateEvidence(Strict, frozen=True, kw_only=True):
    """Candidate against baseline on the same fresh seeds."""

    verdict: Verdict
    pairs: int
    wins: int
    """Pairs in which only the candidate succeeded."""
    losses: int
    """Pairs in which only the baseline succeeded."""
    p_value: float
    """Of the side that the verdict speaks about: the smaller of better and worse."""
    alpha: float


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
