"""What all messages have in common."""

import re

from msgspec import Struct


def _tag(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Message(Struct, frozen=True, kw_only=True, tag_field="type", tag=_tag):
    """A body. Its `type` travels with it, so that answers of several kinds can share a key.

    Evolution is additive: readers ignore unknown fields, and new fields have defaults.
    """
