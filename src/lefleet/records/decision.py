"""What was decided about a candidate, and on what evidence."""

from typing import Literal

from lefleet.records.border import Strict
from lefleet.records.compare import GateResult

Outcome = Literal["baseline", "promote", "iterate", "escalate", "rollback", "stop"]


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
    gate: GateResult | None = None
    gate_number: int = 0
    """This is the run's first, second, … gate; 0 where there was none."""
    diagnosis: tuple[str, ...] = ()
    """What to look at, where nothing works yet."""
