"""What a run asks a person before it does it, what was answered, and who is told."""

from typing import Annotated, Literal

from msgspec import Meta

from lefleet.records.border import Strict

Hours = Annotated[float, Meta(ge=0.0)]
ApprovalMode = Literal["auto", "human"]
ApprovalKind = Literal["promote", "escalate", "constitution", "real_hardware"]
NotifyKind = Literal["approval", "promotion", "failure", "end"]


class ApprovalPlan(Strict, frozen=True, kw_only=True):
    """What a run may do by itself (auto), and what waits for a person (human)."""

    promote: ApprovalMode | None = None
    """Bless a checkpoint that its gate showed to be better. Unset: auto in simulation, human where
    the run moves a real robot."""
    escalate: ApprovalMode = "auto"
    """Go on with the next rung of the ladder."""
    constitution: ApprovalMode = "human"
    """Go on under a constitution whose file was changed while the run was running."""
    real_hardware: ApprovalMode = "human"
    """Begin to move a real robot; its constitution must allow it too."""
    timeout_hours: Annotated[float, Meta(ge=0.0, le=87600.0)] = 0.0
    """After this time `on_timeout` is the answer. 0: wait until somebody answers."""
    on_timeout: Literal["approve", "reject"] = "reject"


class NotifyPlan(Strict, frozen=True, kw_only=True):
    """Whom to tell, and of what."""

    command: tuple[str, ...] = ()
    """Program with its arguments; it gets the message as JSON on stdin."""
    webhook: str = ""
    """Address that the message is posted to as JSON. $NAME is replaced by that environment
    variable when it is sent, so that a secret address is in no file."""
    on: tuple[NotifyKind, ...] = ("approval", "promotion", "failure", "end")


class ApprovalAnswer(Strict, frozen=True, kw_only=True):
    """What a person said, or what the time-out stands for."""

    approved: bool
    who: str
    """System user, name of a token, or `timeout`."""
    at: float
    """Seconds since 1970."""
    why: str = ""
