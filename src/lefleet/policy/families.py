"""Which policies robots may share, and why others may not: read in LeRobot 0.6.1, never inferred.

What decides is `predict_action_chunk`. Where it computes a chunk from its arguments alone, requests
of many robots can take turns. Where it reads what earlier calls left behind, they cannot.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

Sharing = Literal["shared", "exclusive", "refused"]

Feed = Literal["present", "stacked", "queues", "restart"]
"""How observations reach the policy.

present:  the present one, as a batch of one
stacked:  all n_obs_steps of them in one batch, with a dimension for time
queues:   reset, then one by one through the policy's own queues, at every request
restart:  reset at every request, then the present one
"""


@dataclass(frozen=True)
class Family:
    """How the policies of one type are served; `reason` is for a person to read."""

    sharing: Sharing
    reason: str
    feed: Feed = "present"
    caution: str = ""
    """What differs from LeRobot's own loop, if anything does."""


_ALONE = "its chunk depends on the request alone"
_ACTION_QUEUE = f"{_ALONE}; its queue holds actions that only select_action reads"
_FLOW = f"{_ALONE} and on noise that is seeded per request"

LEROBOT: dict[str, Family] = {
    "act": Family("shared", _ALONE),
    "diffusion": Family(
        "shared",
        "with empty queues its chunk depends on the request alone, which carries the history",
        feed="stacked",
    ),
    "eo1": Family("shared", _FLOW),
    "evo1": Family("shared", _FLOW),
    "fastwam": Family("shared", f"{_ALONE} and on the seed in its config"),
    "gaussian_actor": Family(
        "refused", "it gives single actions: predict_action_chunk raises NotImplementedError"
    ),
    "groot": Family("shared", f"{_FLOW}; the state that its decoder needs is the processors'"),
    "lingbot_va": Family(
        "exclusive",
        "it keeps a cache of the video that it has seen",
        feed="restart",
        caution="lingbot_va starts over at every request: the frames that LeRobot's own loop "
        "feeds back between two chunks do not travel",
    ),
    "molmoact2": Family("shared", f"{_FLOW}; its cache holds what every request has in common"),
    "multi_task_dit": Family(
        "exclusive",
        "its chunk reads observation queues, which are filled again for every request",
        feed="queues",
    ),
    "pi0": Family("shared", _FLOW),
    "pi05": Family("shared", _FLOW),
    "pi0_fast": Family("shared", f"{_ALONE}; decoding starts with an empty cache"),
    "smolvla": Family("shared", _FLOW),
    "tdmpc": Family(
        "exclusive",
        "it plans from queues and from its last plan",
        feed="queues",
        caution="tdmpc plans from nothing at every request: LeRobot's own loop starts from the "
        "last plan",
    ),
    "vla_jepa": Family("shared", _ACTION_QUEUE),
    "vqbet": Family(
        "exclusive",
        "its chunk reads observation queues, which are filled again for every request",
        feed="queues",
    ),
    "wall_x": Family("shared", f"{_ACTION_QUEUE}; positions are counted from 0 for every chunk"),
    "xvla": Family("shared", _ACTION_QUEUE),
}

_UNKNOWN = Family("exclusive", "it is not known whether its requests affect each other")
_vouched: dict[str, Family] = {}


def vouch(policy_type: str, family: Family) -> None:
    """Say how a policy that is not LeRobot's may be served; its package calls this on import.

    Sharing is still proven by the probe at start.
    """
    if policy_type in LEROBOT:
        raise ValueError(f"{policy_type} is a policy of LeRobot: its entry is in LEROBOT")
    _vouched[policy_type] = family


def family_of(config: Any) -> Family:
    """How this policy may be served, its settings considered."""
    family = LEROBOT.get(config.type) or _vouched.get(config.type) or _UNKNOWN
    if deviation := _DEVIATIONS.get(config.type, _no_deviation)(config):
        family = replace(family, sharing=deviation[0], reason=deviation[1])
    steps = getattr(config, "n_obs_steps", 1)
    if steps != 1 and family.feed in ("present", "restart"):
        return replace(
            family,
            sharing="refused",
            reason=f"n_obs_steps is {steps}, but its chunk is known to read one observation only",
        )
    return family


Deviation = tuple[Sharing, str] | None


def _no_deviation(_: Any) -> Deviation:
    return None


def _act(config: Any) -> Deviation:
    if config.temporal_ensemble_coeff is None:
        return None
    return (
        "refused",
        "temporal_ensemble_coeff is set: an ensemble needs a chunk at every step and mixes it "
        "with earlier ones, which chunks on request cannot give; unset it in config.json",
    )


def _molmoact2(config: Any) -> Deviation:
    if not config.per_episode_seed:
        return None
    return ("exclusive", "per_episode_seed is set: its noise goes on from one request to the next")


_DEVIATIONS: dict[str, Callable[[Any], Deviation]] = {"act": _act, "molmoact2": _molmoact2}
