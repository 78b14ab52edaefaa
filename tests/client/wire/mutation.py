"""Bytes that are nearly those of a valid message or file."""

import random


def mutated(data: bytes, rng: random.Random, parts: list[bytes]) -> bytes:
    """Some bytes changed, cut out, doubled, or replaced by one of the parts."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        at = rng.randint(0, len(changed))
        to = min(len(changed), at + rng.randint(0, 12))
        random_bytes = bytes(rng.randint(0, 255) for _ in range(rng.randint(0, 6)))
        changed[at:to] = rng.choice([random_bytes, bytes(changed[at:to]) * 2, *parts])
    return bytes(changed)
