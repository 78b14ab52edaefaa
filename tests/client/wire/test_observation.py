"""Limits of a session: what it can need fits, and no more."""

import msgspec
import numpy as np
import pytest

from lefleet_client import wire
from tests.client.wire.memory import peak_bytes
from tests.client.wire.samples import SESSION_LIMITS


def robot(images: int, n_obs_steps: int, side: int) -> tuple[wire.Observation, dict]:
    """All that a robot of this kind can send, and its sizes."""
    rng = np.random.default_rng(0)
    vectors = {f"observation.{part}": rng.random(7, np.float32) for part in ("state", "force")}
    tensors = {key: wire.encode_tensor(one) for key, one in vectors.items()}
    cameras = {f"observation.images.{number}": side * side for number in range(images)}
    image = wire.encode_image(rng.integers(0, 255, (side, side, 3), np.uint8), quality=0)
    prefix = wire.encode_tensor(np.zeros((1000, 14), np.float32))
    frame = wire.Frame(vectors=tensors, images=dict.fromkeys(cameras, image))
    message = wire.Observation(
        vectors=frame.vectors,
        images=frame.images,
        task="é" * 2048,
        inference_delay_steps=2**40,
        prefix_model=prefix,
        prefix_robot=prefix,
        noise_seed=2**64 - 1,
        history=(frame,) * (n_obs_steps - 1),
        probe=True,
    )
    return message, {
        "vectors": dict.fromkeys(vectors, 7),
        "cameras": cameras,
        "n_obs_steps": n_obs_steps,
        "chunk_size": 1000,
        "columns": 14,
    }


@pytest.mark.parametrize(
    ("images", "n_obs_steps", "side"), [(0, 1, 1), (1, 1, 1), (2, 1, 480), (4, 3, 64), (64, 2, 8)]
)
def test_what_a_session_can_need_fits_its_limits(images, n_obs_steps, side):
    message, sizes = robot(images, n_obs_steps, side)
    limits = wire.observation_limits(**sizes)
    data = wire.OBSERVATION.encode(message)
    assert wire.decode_observation(data, limits) == message
    assert limits.body.max_bytes < len(data) + 64 * 1024 + (images * n_obs_steps + 1) * 4096
    later = msgspec.msgpack.decode(data) | {f"added_{number}": 1 for number in range(5)}
    assert wire.decode_observation(msgspec.msgpack.encode(later), limits) == message


@pytest.mark.parametrize("quality", [50, 100])
@pytest.mark.parametrize("side", [1, 8, 64])
def test_a_jpeg_of_noise_fits_the_limits_of_its_pixels(quality, side):
    pixels = np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)
    images = {f"camera {number}": wire.encode_image(pixels, quality) for number in range(32)}
    limits = wire.observation_limits(
        vectors={},
        cameras=dict.fromkeys(images, side * side),
        n_obs_steps=5,
        chunk_size=1,
        columns=1,
    )
    message = wire.Observation(images=images, history=(wire.Frame(images=images),) * 4)
    assert wire.decode_observation(wire.OBSERVATION.encode(message), limits) == message


def test_bytes_frames_and_pixels_of_a_session_are_bounded():
    message, sizes = robot(images=1, n_obs_steps=2, side=64)
    limits = wire.observation_limits(**sizes)
    data = wire.OBSERVATION.encode(message)
    tiny = limits._replace(body=limits.body._replace(max_bytes=len(data) - 1))
    with pytest.raises(wire.BadBody, match="above"):
        wire.decode_observation(data, tiny)
    with pytest.raises(wire.BadBody, match="history: 1 frames, and the policy looks at 0"):
        wire.decode_observation(data, limits._replace(n_obs_steps=1))
    smaller = limits._replace(pixels={"observation.images.0": 64 * 64 - 1})
    with pytest.raises(wire.BadImage, match="64 x 64 is more than 4095 pixels; resize"):
        wire.decode_observation(data, smaller)
    in_history = msgspec.structs.replace(message, images={})
    with pytest.raises(wire.BadImage, match="more than 4095"):
        wire.decode_observation(wire.OBSERVATION.encode(in_history), smaller)


def test_a_small_jpeg_of_many_pixels_is_refused_before_it_is_decoded():
    """166 bytes were enough to make a server take 275 MB."""
    image = wire.Image("jpeg", (3072, 4096, 3), memoryview(b"\xff\xd8" + bytes(164)))
    data = wire.OBSERVATION.encode(wire.Observation(images={"observation.images.top": image}))

    def decode() -> None:
        with pytest.raises(wire.BadImage, match="more than 307200"):
            wire.decode_observation(data, SESSION_LIMITS)

    assert peak_bytes(decode) < 100_000


def test_limits_stay_below_those_of_every_observation():
    limits = wire.observation_limits(
        vectors={"a": 1024},
        cameras={str(number): 2**40 for number in range(64)},
        n_obs_steps=65,
        chunk_size=1000,
        columns=1000,
    )
    assert limits.body.max_bytes == wire.OBSERVATION.limits.max_bytes
    assert limits.body.max_items < wire.OBSERVATION.limits.max_items
    assert max(limits.pixels.values()) < 2**24
