"""One page of a long list: which items, from where on, and how many there are in all."""

from collections.abc import Sequence

from lefleet.errors import BadInput
from lefleet.records.border import Strict

DEFAULT_LIMIT = 50
MOST = 200
"""Items of one page, at most."""
FARTHEST = 2**63 - 1
"""A larger number is none for a database."""


class Page[Item](Strict, frozen=True, kw_only=True):
    """Some items of a list, in its order."""

    items: tuple[Item, ...]
    total: int
    """Items of the whole list."""
    offset: int
    """Of the first item here. At or behind the end there are none."""


def part_of[Item](items: Sequence[Item], offset: int, limit: int) -> Page[Item]:
    """A page of a list that is whole in memory."""
    offset, limit = checked(offset, limit)
    return Page(items=tuple(items[offset : offset + limit]), total=len(items), offset=offset)


def checked(offset: int, limit: int) -> tuple[int, int]:
    """Both as they are, or BadInput."""
    if not 0 <= offset <= FARTHEST:
        raise BadInput(f"offset: {offset} is out of range.", f"Give one from 0 to {FARTHEST}.")
    if not 1 <= limit <= MOST:
        raise BadInput(f"limit: {limit} items.", f"Ask for 1 to {MOST}.")
    return offset, limit
