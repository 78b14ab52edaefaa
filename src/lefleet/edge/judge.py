"""Which command may be sent in place of an action: limits per joint, largest step, no NaN.

`judge` decides about one action and has no state. `GuardConfig` has the limits.
"""

import difflib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from lefleet.errors import BadInput


@dataclass(frozen=True)
class GuardConfig:
    """Limits of the commands that may reach the driver. Without any, only NaN is stopped.

    On the command line:
        --guard.limits='{shoulder_pan.pos: [-90, 90], x.vel: [-0.2, 0.2]}'
        --guard.max_step=5
    """

    mode: Literal["clamp", "refuse"] = "clamp"
    """clamp: move a value to the nearest allowed one. refuse: send the safe command instead."""
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Smallest and largest command by joint."""
    max_step: float | dict[str, float] = field(default_factory=dict)
    """Largest change of a command from one to the next, by joint; one number: for all .pos."""

    @property
    def is_limiting(self) -> bool:
        return bool(self.limits) or self.max_step != {}

    def step_of(self, joint: str) -> float:
        if isinstance(self.max_step, dict):
            return self.max_step.get(joint, math.inf)
        return self.max_step if joint.endswith(".pos") else math.inf


def check_guard(config: GuardConfig, joints: Iterable[str]) -> None:
    """Raise BadInput for a setting that cannot be used with a robot that has these joints."""
    known = sorted(joints)
    if config.mode not in ("clamp", "refuse"):
        raise BadInput(f"guard.mode: {config.mode!r} is neither clamp nor refuse.")
    for joint, bounds in config.limits.items():
        name = f"guard.limits: {joint}"
        _check_known("guard.limits", joint, known)
        if len(bounds) != 2 or any(math.isnan(bound) for bound in bounds):
            raise BadInput(f"{name} needs two numbers, smallest and largest, not {list(bounds)}.")
        if bounds[0] > bounds[1]:
            raise BadInput(f"{name}: the smallest, {bounds[0]:g}, is above {bounds[1]:g}.")
        if joint.endswith(".vel") and not bounds[0] <= 0 <= bounds[1]:
            raise BadInput(f"{name} must allow 0, which stops the joint; it is {list(bounds)}.")
    if isinstance(config.max_step, dict):
        for joint, step in config.max_step.items():
            _check_known("guard.max_step", joint, known)
            _check_step(step, f" for {joint}")
    else:
        _check_step(config.max_step, "")


def _check_step(step: float, of: str) -> None:
    if not step > 0:
        raise BadInput(f"guard.max_step: must be above 0, is {step:g}{of}.")


def _check_known(setting: str, joint: str, known: list[str]) -> None:
    if joint in known:
        return
    near = difflib.get_close_matches(joint, known, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"It has {', '.join(known)}."
    raise BadInput(f"{setting}: the robot has no {joint!r}.", hint)


Reason = Literal[
    "not finite", "below limit", "above limit", "step too large", "no joint", "position unknown"
]
_NEVER_SENT = frozenset({"not finite", "position unknown"})
"""No value is the nearest allowed one, so the whole action is refused."""


class Judgement(NamedTuple):
    """What may be sent instead of an action."""

    outcome: Literal["passed", "clamped", "refused"]
    send: dict[str, float]
    """Empty: send nothing."""
    reasons: dict[str, Reason]
    """By joint, where the action was not allowed."""


def judge(
    action: Mapping[str, Any],
    config: GuardConfig,
    last_sent: Mapping[str, float],
    observed: Mapping[str, float],
    *,
    joints: Collection[str] | None = None,
    unseen: Collection[str] = (),
) -> Judgement:
    """Decide about one action.

    A joint's step is measured from the last command if that contained the joint, else from its
    observed position (`.pos`) or from 0 (`.vel`). Without any of these the action is refused until
    the position is known; only joints in `unseen`, which the robot never observes, begin with their
    first command. Where a step cannot reach the limits, because the robot stands outside them, the
    step decides: the command moves towards the limits.

    Where anything is limited, what is none of the robot's `joints` is left out: a driver may know
    a motor under a second name, and no limit would apply to that. None: they are not known.

    A refused action is replaced by the safe command: the last one with velocities at 0, since a
    velocity controller would go on moving without a command. If nothing was sent before, joints
    hold their observed position; a robot without velocities then gets no command at all.
    """
    send: dict[str, float] = {}
    reasons: dict[str, Reason] = {}
    if joints is not None and config.is_limiting:
        reasons = {name: "no joint" for name in action if name not in joints}
        action = {name: raw for name, raw in action.items() if name not in reasons}
    for joint, raw in action.items():
        value = number_of(raw)
        if not math.isfinite(value):
            reasons[joint] = "not finite"
            continue
        is_known = joint in unseen or not math.isnan(_start(joint, last_sent, observed))
        if not is_known and math.isfinite(config.step_of(joint)):
            reasons[joint] = "position unknown"
            continue
        send[joint], reason = _allowed(joint, value, config, last_sent, observed)
        if reason is not None:
            reasons[joint] = reason
    if not reasons:
        return Judgement("passed", send, reasons)
    if config.mode == "clamp" and send and _NEVER_SENT.isdisjoint(reasons.values()):
        return Judgement("clamped", send, reasons)
    return Judgement("refused", _safe_command(action, config, last_sent, observed), reasons)


def number_of(raw: Any) -> float:
    try:
        return float(raw)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        # An array or tensor of several numbers, among others.
        return math.nan


def _allowed(
    joint: str,
    value: float,
    config: GuardConfig,
    last_sent: Mapping[str, float],
    observed: Mapping[str, float],
) -> tuple[float, Reason | None]:
    """The nearest allowed value, and why `value` is not."""
    low, high = config.limits.get(joint, (-math.inf, math.inf))
    allowed = min(max(value, low), high)
    reason: Reason | None = None
    if allowed != value:
        reason = "below limit" if value < low else "above limit"
    step, start = config.step_of(joint), _start(joint, last_sent, observed)
    if not math.isnan(start) and not start - step <= allowed <= start + step:
        allowed = min(max(allowed, start - step), start + step)
        reason = reason or "step too large"
    return allowed, reason


def _start(joint: str, last_sent: Mapping[str, float], observed: Mapping[str, float]) -> float:
    """Where a joint's step begins; NaN if nothing is known about it."""
    if joint in last_sent:
        return last_sent[joint]
    return 0.0 if joint.endswith(".vel") else observed.get(joint, math.nan)


def _safe_command(
    action: Mapping[str, Any],
    config: GuardConfig,
    last_sent: Mapping[str, float],
    observed: Mapping[str, float],
) -> dict[str, float]:
    if last_sent:
        return {k: 0.0 if k.endswith(".vel") else value for k, value in last_sent.items()}
    hold = {k: 0.0 if k.endswith(".vel") else observed.get(k, math.nan) for k in action}
    if not any(joint.endswith(".vel") for joint in hold):
        return {}
    unbounded = (-math.inf, math.inf)
    bounds = {joint: config.limits.get(joint, unbounded) for joint in hold}
    can_hold = all(bounds[joint][0] <= value <= bounds[joint][1] for joint, value in hold.items())
    return hold if can_hold else {}
