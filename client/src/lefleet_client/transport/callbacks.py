"""Callbacks of others, run on threads that must survive them."""

import logging
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


def attempt(what: str, callback: Callable[..., T], *values: object) -> T | None:
    """The callback's result; None when it raised, which is logged and goes no further."""
    try:
        return callback(*values)
    except Exception:  # noqa: BLE001 - a transport's thread serves others too
        _LOG.exception("%s", what)
        return None
