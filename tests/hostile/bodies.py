"""Bytes that cost a careless reader much time or memory, and little to send."""

import struct
from functools import cache
from typing import Any

import numpy as np
import simplejpeg

from tests.hostile.bus import pack

MB = 1_000_000
FITTING = 600_000
"""Below what an observation with raw images may have, so that size alone does not refuse it."""
HUGE = 60 * MB
"""Below what Zenoh is told to take in one message."""

_SCAN = b"\xff\xda"
_EMPTY_SCAN = bytes.fromhex("ffda 0008 01 0100 003f 00")
"""The first component once more, without data: a decoder fills all its blocks again."""


@cache
def scan_bomb(size: int, height: int = 480, width: int = 640) -> bytes:
    """A baseline JPEG of so many bytes that consists of empty scans."""
    plain = simplejpeg.encode_jpeg(np.zeros((height, width, 3), np.uint8), colorsubsampling="420")
    head = plain[: plain.index(_SCAN)]
    scans = (size - len(head) - 2) // len(_EMPTY_SCAN)
    return head + _EMPTY_SCAN * scans + b"\xff\xd9"


def bombed(contract: dict[str, Any], size: int) -> bytes:
    """An observation whose images are scan bombs of 640 x 480, of so many bytes in all."""
    bomb = scan_bomb(size // len(contract["cameras"]))
    image = {"codec": "jpeg", "shape": [480, 640, 3], "data": bomb}
    return observation(contract, images=dict.fromkeys(contract["cameras"], image))


def observation(contract: dict[str, Any], **changes: object) -> bytes:
    """What a robot of this contract sends: zeros and black images."""
    vectors = {
        key: {"dtype": "float32", "shape": [len(names)], "data": bytes(4 * len(names))}
        for key, names in contract["vectors"].items()
    }
    images = {
        key: {"codec": "raw", "shape": shape, "data": bytes(int(np.prod(shape)))}
        for key, shape in contract["cameras"].items()
    }
    return pack({"type": "observation", "vectors": vectors, "images": images, **changes})


def probe(contract: dict[str, Any]) -> bytes:
    """A probe with noise of 640 x 480 in every image: as slow to decode as a legal JPEG can be."""
    noise = np.random.default_rng(0).integers(0, 256, (480, 640, 3), np.uint8)
    jpeg = simplejpeg.encode_jpeg(noise, quality=90, colorsubsampling="420")
    image = {"codec": "jpeg", "shape": [480, 640, 3], "data": jpeg}
    return observation(contract, images=dict.fromkeys(contract["cameras"], image), probe=True)


def map_of(entries: list[bytes]) -> bytes:
    """A MessagePack map of encoded entries, each a key and its value, repeated or not."""
    return b"\xdf" + struct.pack(">I", len(entries)) + b"".join(entries)


@cache
def repeated_keys(size: int) -> bytes:
    """An observation that says its task again and again."""
    kind, task = pack("type") + pack("observation"), pack("task") + pack("x")
    return map_of([kind, *[task] * ((size - len(kind)) // len(task))])


@cache
def repeated_vectors(size: int) -> bytes:
    """The same one level deeper, with a tensor as value: each is built and thrown away."""
    tensor = {"dtype": "float32", "shape": [1], "data": bytes(4)}
    entry = pack("observation.state") + pack(tensor)
    kind = pack("type") + pack("observation")
    return map_of([kind, pack("vectors") + map_of([entry] * (size // len(entry)))])


@cache
def unknown_fields(size: int) -> bytes:
    """An observation with fields that no version knows."""
    entries = [pack(f"field{number:07}") + pack(number % 100) for number in range(size // 14)]
    return map_of([pack("type") + pack("observation"), *entries])


def huge_strings(contract: dict[str, Any], size: int) -> tuple[bytes, ...]:
    """Observations with a huge dtype, codec, task, name and type."""
    long = "x" * size
    tensor = {"dtype": long, "shape": [1], "data": b""}
    image = {"codec": long, "shape": [1, 1, 3], "data": b""}
    return (
        observation(contract, vectors={"observation.state": tensor}),
        observation(contract, images={"observation.images.top": image}),
        observation(contract, task=long),
        observation(contract, vectors={long: tensor | {"dtype": "float32"}}),
        pack({"type": long}),
    )


def nested(size: int) -> bytes:
    """Lists in lists."""
    return map_of([pack("type") + pack("observation"), pack("other") + b"\x91" * size + b"\xc0"])


def many_names(size: int) -> dict[str, list[str]]:
    """Vectors for a session question of about this size; every name is a legal one."""
    per_vector = size // 64 // 256
    return {
        f"vector {number}": [f"{column:0255}" for column in range(per_vector)]
        for number in range(64)
    }
