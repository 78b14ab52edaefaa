"""A LeRobot checkpoint as something that many robots can ask for chunks, without a network.

    settings    which checkpoint, on which device
    request     what a policy is asked and answers, as numpy arrays, and the rules for it
    families    which policies may be shared by robots, and why others may not
    checkpoint  a checkpoint's files to a policy, with LeRobot's own factory
    contract    what every column means, and how that is known
    pipeline    one robot's own pre- and postprocessors
    served      the loaded policy on its device: pipelines for robots, chunks for requests
    warmup      the first chunks, and the proof that requests do not affect each other
    load        all of it, from a checkpoint's name to a policy that may be asked

Requests come from `server` (decoded observations) and from captures; chunks go back there. This is
the only folder besides `rollouts` that runs policies. May import errors, records and stages
(digests, names of checkpoints). Server and cli may import it.

Threads: `Pipeline.prepare` may run on any thread, but between `prepare` and `finish` a pipeline
belongs to one request. `ServedPolicy.predict` belongs to one thread, which owns the device.
"""

import importlib
from typing import TYPE_CHECKING, Any

from lefleet.policy.request import BadRequest, Chunk, PolicyFrame, PolicyRequest
from lefleet.policy.settings import ContractOverride, ModelSettings, RtcSettings

if TYPE_CHECKING:
    from lefleet.policy.load import load_policy
    from lefleet.policy.served import ServedPolicy

__all__ = [
    "BadRequest",
    "Chunk",
    "ContractOverride",
    "ModelSettings",
    "PolicyFrame",
    "PolicyRequest",
    "RtcSettings",
    "ServedPolicy",
    "load_policy",
]

# These import torch and LeRobot, which takes seconds: a manifest is checked before.
_HEAVY = {"ServedPolicy": "served", "load_policy": "load"}


def __getattr__(name: str) -> Any:
    if name not in _HEAVY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"lefleet.policy.{_HEAVY[name]}"), name)
