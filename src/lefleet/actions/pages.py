"""Edit a knowledge page, as a person with an editor would, but never over somebody else's text.

What a person changed in a generated section is theirs from then on, as `knowledge.merge` says; the
ledger keeps who edited which page, and when.
"""

import hashlib
from contextlib import closing
from pathlib import Path

from lefleet.actions.people import words_of
from lefleet.errors import BadInput, Conflict, LeFleetError
from lefleet.knowledge.bundle import FOLDER, locked, replace
from lefleet.knowledge.fences import Unreadable, split
from lefleet.knowledge.front_matter import read_page
from lefleet.ledger import open_ledger
from lefleet.queries.knowledge import page_source
from lefleet.records.border import Strict

_LARGEST = 500_000
"""Bytes of a page that a person may save."""


class PageSaved(Strict, frozen=True, kw_only=True):
    """A page after an edit."""

    page: str
    digest: str
    """sha256 of its text: the `base` of the next edit."""
    is_changed: bool
    """False where it was like that already."""


def edit_page(workdir: Path, page: str, text: str, base: str, who: str) -> PageSaved:
    """Replace the text of an existing page. `base` is the digest of the text that the person saw;
    Conflict where the page has another one by now."""
    page_source(workdir, page)  # says so where there is no such page
    after, path = hashlib.sha256(_checked(page, text)).hexdigest(), workdir / FOLDER / page
    person = words_of(who, "who")
    try:
        with (
            closing(open_ledger(workdir, create=False)) as ledger,
            locked(workdir / FOLDER),
        ):
            current, before = page_source(workdir, page)
            if before == after:
                return PageSaved(page=page, digest=after, is_changed=False)
            if before != base:
                raise _changed(page)
            # First, so that no change is without a name; a kill before it leaves a name without a
            # change, which the same edit finds again.
            edit = ledger.sections.add_edit(page, person, before, after)
            is_saved = False
            try:
                is_saved = replace(path, current, text)
            finally:
                if not is_saved:
                    ledger.sections.drop_edit(edit)
            if not is_saved:
                raise _changed(page)
    except OSError as error:
        raise LeFleetError(
            f"page: {page} could not be written: {error.strerror}.",
            "Check the folder's permissions and the free space of its disk.",
        ) from error
    return PageSaved(page=page, digest=after, is_changed=True)


def _checked(page: str, text: str) -> bytes:
    """What may be saved: LeFleet could not write to a page that it cannot read."""
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise BadInput("text: it is not valid Unicode.") from error
    if len(content) > _LARGEST:
        raise BadInput(f"text: {len(content)} bytes.", f"A page may have at most {_LARGEST} bytes.")
    try:
        split(read_page(text).body)
    except Unreadable as error:
        raise BadInput(
            f"text: {page} would be broken: {error}.",
            "Keep the front matter, and the lines that mark sections in pairs.",
        ) from error
    return content


def _changed(page: str) -> Conflict:
    return Conflict(
        f"page: {page} has been changed since you opened it.",
        "Open it again, and put your changes into the new text.",
    )
