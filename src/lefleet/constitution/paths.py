"""Whether a folder or a hub id is one that a list names."""

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

_GLOB = frozenset("*?[")


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether `name` is one of these names, which may have * and ? in them."""
    return any(name == one or (is_pattern(one) and fnmatchcase(name, one)) for one in patterns)


@lru_cache(maxsize=4096)
def is_pattern(name: str) -> bool:
    """Whether a name of a list stands for many; asked again and again of the same lists."""
    return not _GLOB.isdisjoint(name)


def is_listed(name: str, listed: Iterable[str]) -> bool:
    """Whether a folder or hub id is one of `listed`, in a folder of these, or LeRobot's copy of a
    hub id of these."""
    listed = tuple(listed)
    if name in listed:
        return True
    if not _is_path(name):
        return matches(name, listed)
    real = real_path(name)
    if any(_is_in(real, one) for one in listed if _is_path(one)):
        return True
    copied = _hub_ids(real)
    return any(matches(one, listed) for one in copied)


def is_own(name: str, folders: Iterable[str]) -> bool:
    """Whether `name` is a folder or file in one of these folders.

    A name of the hub is none, also where this process works in one of them: LeRobot takes what is
    not there for a name of the hub.
    """
    return (name.startswith("/") or Path(name).exists()) and is_inside(name, folders)


def is_inside(name: str, folders: Iterable[str]) -> bool:
    """Whether `name` is one of the folders or in one of them, wherever links lead. A * in the
    name of a folder is no pattern."""
    real = real_path(name)
    return any(_contains(real_path(folder), real) for folder in folders)


def real_path(name: str) -> str:
    return os.path.realpath(os.path.expanduser(name))  # noqa: PTH111 - as `_is_in` compares text


def _is_path(name: str) -> bool:
    """A name on the hub has one / and no folder of that name here."""
    if name.startswith(("/", ".", "~")) or ".." in name or name.count("/") != 1:
        return True
    return not is_pattern(name) and Path(name).exists()


def _is_in(real: str, listed: str) -> bool:
    if is_pattern(listed):
        pattern = os.path.expanduser(listed)  # noqa: PTH111
        return fnmatchcase(real, pattern) or fnmatchcase(real, f"{pattern}/*")
    return _contains(real_path(listed), real)


def _contains(folder: str, real: str) -> bool:
    return real == folder or real.startswith(folder.rstrip("/") + "/")


def _hub_ids(real: str) -> list[str]:
    """Hub ids that a folder in the caches of the hub and of LeRobot is a copy of."""
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    caches = (
        os.environ.get("HF_LEROBOT_HOME") or f"{home}/lerobot",
        os.environ.get("HF_HUB_CACHE") or f"{home}/hub",
    )
    found = []
    for cache in caches:
        inside = os.path.relpath(real, real_path(cache)).split("/")
        if inside[0] == "..":
            continue
        if len(inside) > 1 and inside[0] == "hub":
            inside = inside[1:]
        kind, *names = inside[0].split("--")
        if kind in ("models", "datasets") and len(names) == 2:
            found.append("/".join(names))
        elif len(inside) > 1:
            found.append("/".join(inside[:2]))
    return found
