"""Between the bytes that travel and the arrays of a policy."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from lefleet.policy.request import BadRequest, Chunk, PolicyFrame, PolicyRequest
from lefleet.server.handshake import other_size, oversize
from lefleet.server.observers import RequestOutcome
from lefleet_client import wire

_LISTED = 4
"""Unknown keys that a warning names, at most."""


def request_seed(observation: wire.Observation, session_id: str, header: wire.Header) -> int:
    """The seed of whatever the policy draws: the robot's, or one of this very request."""
    if observation.noise_seed is not None:
        return observation.noise_seed
    name = f"{session_id}/{header.episode_id}/{header.seq_id}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "little")


def policy_request(
    observation: wire.Observation,
    *,
    contract: wire.Contract,
    robot_type: str,
    default_task: str,
    pin_task: bool = False,
    seed: int,
) -> PolicyRequest:
    """An observation as the policy is asked; images are decoded here.

    BadRequest where the task or the size of an image is not what this server does.
    """
    if pin_task and observation.task not in ("", default_task):
        raise BadRequest(f"task: this server only does {default_task!r}")
    seen: list[wire.Frame | wire.Observation] = [*observation.history, observation]
    # All of them before any pixel is decoded: the last image may be the one that is refused.
    used = [used_images(one, contract) for one in seen]
    return PolicyRequest(
        frames=tuple(
            policy_frame(one, images, contract) for one, images in zip(seen, used, strict=True)
        ),
        task=observation.task or default_task,
        robot_type=robot_type,
        seed=seed,
        inference_delay_steps=observation.inference_delay_steps,
        prefix_model=_array(observation.prefix_model),
        prefix_robot=_array(observation.prefix_robot),
    )


def used_images(
    seen: wire.Frame | wire.Observation, contract: wire.Contract
) -> dict[str, wire.Image]:
    """The images that the policy takes, not yet decoded; BadRequest where one is too large.

    Others are left out, undecoded: the robot was warned of those that it has announced when its
    session was opened, and is warned of the rest with its first observation.
    """
    used = {key: image for key, image in seen.images.items() if key in contract.cameras}
    for key, image in used.items():
        if too_large := oversize(contract, key, image.shape):
            raise BadRequest(too_large)
    return used


def unannounced_sizes(
    observation: wire.Observation, contract: wire.Contract, opened: wire.SessionOpen
) -> Iterator[tuple[str, str]]:
    """Cameras whose images have neither the size of training nor the one that the robot has
    announced, and was warned of in the handshake: key and warning."""
    for key in contract.cameras.keys() & observation.images.keys():
        shape = observation.images[key].shape
        if shape != opened.cameras[key] and (warning := other_size(contract, key, shape)):
            yield key, warning


def unannounced_keys(
    observation: wire.Observation, contract: wire.Contract, opened: wire.SessionOpen
) -> str:
    """The warning for images and vectors that the policy does not take and that the robot has not
    announced; empty without any."""
    known = {*contract.cameras, *contract.vectors}
    unknown = {*observation.images, *observation.vectors} - known
    if not (unknown := unknown - {*opened.cameras, *opened.vectors}):
        return ""
    listed = ", ".join(sorted(unknown)[:_LISTED])
    return f"{listed}: ignored, the policy takes {', '.join(sorted(known))}"


def policy_frame(
    seen: wire.Frame | wire.Observation,
    images: Mapping[str, wire.Image],
    contract: wire.Contract,
) -> PolicyFrame:
    """What was seen at one moment, as arrays; only what the policy takes."""
    used = {key: one for key, one in seen.vectors.items() if key in contract.vectors}
    frame: PolicyFrame = {key: wire.decode_tensor(one) for key, one in used.items()}
    return {**frame, **wire.decode_images(images)}


def codec_of(observation: wire.Observation) -> str:
    """The codec of an observation's images; empty without any."""
    return next((image.codec for image in observation.images.values()), "")


def action_chunk(
    chunk: Chunk, header: wire.Header, outcome: RequestOutcome, *, digest: str, load: float
) -> bytes:
    """A chunk as it travels, with the echoes of its request."""
    return wire.CHUNK.encode(
        wire.ActionChunk(
            chunk_model=wire.encode_tensor(chunk.model),
            chunk_robot=wire.encode_tensor(chunk.robot),
            seq_id=header.seq_id,
            episode_id=header.episode_id,
            client_mono_ns=header.client_mono_ns,
            digest=digest,
            queue_wait_ms=outcome.queue_wait_ms,
            prepare_ms=outcome.prepare_ms,
            inference_ms=outcome.inference_ms,
            superseded=outcome.superseded,
            load=load,
        )
    )


def _array(tensor: wire.Tensor | None) -> NDArray[Any] | None:
    return None if tensor is None else wire.decode_tensor(tensor)
