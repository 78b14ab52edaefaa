"""Several images at once: JPEG is coded outside Python's lock, so other cores can help."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def _new_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="jpeg")


_POOL = _new_pool()
"""Threads `jpeg_*`, started when first needed; they only code images."""


def _renew() -> None:
    global _POOL  # noqa: PLW0603 - threads stay with the parent
    _POOL = _new_pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def each(code: Callable[[A], B], images: Mapping[str, A]) -> dict[str, B]:
    """`code` of every image by its key; the calling thread does its share."""
    if len(images) < 2:
        return {key: code(image) for key, image in images.items()}
    (first, own), *others = images.items()
    coming = {key: _POOL.submit(code, image) for key, image in others}
    done = {first: code(own)}
    return done | {key: one.result() for key, one in coming.items()}
