"""One request on its way to an answer: bytes to arrays, arrays to a chunk's bytes."""

import hashlib
from typing import Any

from numpy.typing import NDArray

from lefleet.policy.request import BadRequest, Chunk, Frame, PolicyRequest
from lefleet.server.handshake import oversize
from lefleet_client import wire


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

    Cameras that the policy does not look at are left out, undecoded. BadRequest where the task or
    the size of an image is not what this server does.
    """
    if pin_task and observation.task not in ("", default_task):
        raise BadRequest(f"task: this server only does {default_task!r}")
    return PolicyRequest(
        frames=(
            *(decoded(earlier, contract) for earlier in observation.history),
            decoded(observation, contract),
        ),
        task=observation.task or default_task,
        robot_type=robot_type,
        seed=seed,
        inference_delay_steps=observation.inference_delay_steps,
        prefix_model=_array(observation.prefix_model),
        prefix_robot=_array(observation.prefix_robot),
    )


def codec_of(observation: wire.Observation) -> str:
    """The codec of an observation's images; empty without any."""
    return next((image.codec for image in observation.images.values()), "")


def action_chunk(
    chunk: Chunk,
    header: wire.Header,
    *,
    digest: str,
    queue_wait_ms: float,
    prepare_ms: float,
    inference_ms: float,
    superseded: int,
    load: float,
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
            queue_wait_ms=queue_wait_ms,
            prepare_ms=prepare_ms,
            inference_ms=inference_ms,
            superseded=superseded,
            load=load,
        )
    )


def decoded(seen: wire.Frame | wire.Observation, contract: wire.Contract) -> Frame:
    """What was seen at one moment, as arrays; BadRequest where an image is too large."""
    for key, image in seen.images.items():
        if key in contract.cameras and (too_large := oversize(contract, key, image.shape)):
            raise BadRequest(too_large)
    frame: Frame = {key: wire.decode_tensor(tensor) for key, tensor in seen.vectors.items()}
    looked_through = {key: one for key, one in seen.images.items() if key in contract.cameras}
    return {**frame, **wire.decode_images(looked_through)}


def _array(tensor: wire.Tensor | None) -> NDArray[Any] | None:
    return None if tensor is None else wire.decode_tensor(tensor)
