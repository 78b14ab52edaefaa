"""What may explain that nothing works: one finding of a diagnosis."""

from typing import Literal

from lefleet.records.border import Strict

Aspect = Literal["coverage", "loss", "action range", "horizon", "normalisation"]
FindingVerdict = Literal["ok", "suspicious", "unknown"]


class DiagnosisFinding(Strict, frozen=True, kw_only=True):
    """One thing that was looked at."""

    aspect: Aspect
    verdict: FindingVerdict
    measured: str
    """What was seen, with numbers."""
    remedy: str = ""
    """What to do about it; empty where nothing is wrong."""
    settings: dict[str, str] = {}
    """Fields of a new run's config that would do it, by name as in the file; those of the rung
    that was trained on begin with `rung.`."""
    weight: float = 0.0
    """How well it alone explains that no episode succeeds: 0 not at all, 1 completely."""
