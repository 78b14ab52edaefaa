"""One page of a long list: which items, from where on, and how many there are in all."""

from lefleet.errors import BadInput
from lefleet.records.border import Strict

DEFAULT_LIMIT = 50
MOST = 200
"""Items of one page, at most."""
_FARTHEST = 2**63 - 1
"""A larger number is none for a database."""


class Page[Item](Strict, frozen=True, kw_only=True):
    """Some items of a list, in its order."""

    items: tuple[Item, ...]
    total: int
    """Items of the whole list."""
    offset: int
    """Of the first item here. At or behind the end there are none."""


def checked(offset: int, limit: int) -> tuple[int, int]:
    """Both as they are, or BadInput."""
    if not 0 <= offset <= _FARTHEST:
        raise BadInput(f"offset: {offset} is out of range.", f"Give one from 0 to {_FARTHEST}.")
    if not 1 <= limit <= MOST:
        raise BadInput(f"limit: {limit} items.", f"Ask for 1 to {MOST}.")
    return offset, limit
