"""Captured requests, computed again, and compared with the answers that robots got."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lefleet.errors import BadInput
from lefleet.policy.request import BadRequest
from lefleet.policy.served import ServedPolicy
from lefleet.server.capture import Captured, read_captures
from lefleet.server.conversion import policy_request
from lefleet_client import wire

TOLERANCE = 1e-3
"""Absolute and relative, between devices: they round differently."""

ReplayResult = Literal["equal", "close", "different", "failed"]
"""equal: bit for bit. close: within the tolerance, and computed on another kind of device."""


@dataclass(frozen=True)
class Replayed:
    """One request and how its answer came out."""

    name: str
    client_id: str
    episode_id: int
    seq_id: int
    result: ReplayResult
    max_difference: float
    """In the robot's units."""
    reason: str = ""


@dataclass(frozen=True)
class ReplayReport:
    """All requests of a ring; `notes` say why differences may be expected."""

    requests: tuple[Replayed, ...]
    notes: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        return all(one.result in ("equal", "close") for one in self.requests)


def replay(folder: Path, policy: ServedPolicy) -> ReplayReport:
    """Decode and compute each captured request as the server does."""
    device = policy.processors.device.partition(":")[0]
    requests, digests, devices = [], set(), set()
    episode: tuple[str, int] | None = None
    for name, capture in read_captures(folder):
        request = capture.request
        captured_on = capture.policy.model.device.partition(":")[0]
        digests.add(request.digest)
        devices.add(captured_on)
        header, answer = _travelled(request, folder / f"{name}.capture")
        if policy.is_exclusive and episode != (request.session_id, header.episode_id):
            policy.reset()
            episode = (request.session_id, header.episode_id)
        result, difference, reason = _again(
            request, answer, policy, is_same_device=captured_on == device
        )
        requests.append(
            Replayed(
                name=name,
                client_id=request.client_id,
                episode_id=header.episode_id,
                seq_id=header.seq_id,
                result=result,
                max_difference=difference,
                reason=reason,
            )
        )
    return ReplayReport(tuple(requests), _notes(policy, digests, devices - {device}))


def _travelled(request: Captured, path: Path) -> tuple[wire.Header, tuple[NDArray[Any], ...]]:
    """The request's header, and the answer in the model's and in the robot's units."""
    try:
        header = wire.Header.unpack(request.header)
        chunk = wire.CHUNK.decode(request.chunk)
        return header, (
            wire.decode_tensor(chunk.chunk_model),
            wire.decode_tensor(chunk.chunk_robot),
        )
    except wire.WireError as error:
        raise BadInput(f"{path}: it is not a capture: {error}.") from error


def _again(
    request: Captured, then: tuple[NDArray[Any], ...], policy: ServedPolicy, *, is_same_device: bool
) -> tuple[ReplayResult, float, str]:
    try:
        now = _compute(request, policy)
    except (wire.WireError, BadRequest) as error:
        return "failed", 0.0, str(error)
    for was, new in zip(then, now, strict=True):
        if was.shape != new.shape:
            return "different", 0.0, f"the chunk was {was.shape}, and is {new.shape}"
    difference = float(np.abs(then[1] - now[1]).max(initial=0.0))
    if all(was.tobytes() == new.tobytes() for was, new in zip(then, now, strict=True)):
        return "equal", 0.0, ""
    is_close = all(
        np.allclose(was, new, rtol=TOLERANCE, atol=TOLERANCE)
        for was, new in zip(then, now, strict=True)
    )
    return ("close" if is_close and not is_same_device else "different"), difference, ""


def _compute(request: Captured, policy: ServedPolicy) -> tuple[NDArray[Any], NDArray[Any]]:
    """With a pipeline of its own: a request carries all that its answer depends on."""
    observation = wire.OBSERVATION.decode(request.observation)
    question = policy_request(
        observation,
        contract=policy.contract,
        robot_type=request.robot_type,
        default_task=request.default_task,
        seed=request.seed,
    )
    pipeline = policy.new_pipeline()
    chunk = pipeline.finish(policy.predict(pipeline.prepare(question)))
    return chunk.model, chunk.robot


def _notes(policy: ServedPolicy, digests: set[str], devices: set[str]) -> tuple[str, ...]:
    notes = [
        f"Captured with the checkpoint {digest[:12]}, computed with {policy.digest[:12]}."
        for digest in sorted(digests - {policy.digest})
    ]
    notes += [
        f"Captured on {device}, computed on {policy.processors.device}: compared with a tolerance "
        f"of {TOLERANCE:g}."
        for device in sorted(devices)
    ]
    if policy.is_exclusive:
        notes.append(
            "This policy keeps state within an episode: of one whose beginning is not captured, "
            "answers may differ."
        )
    return tuple(notes)
