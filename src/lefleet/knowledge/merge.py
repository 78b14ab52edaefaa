"""A page's draft and the page as it stands become the new page: a pure function.

Whose a section is, follows from the ledger's mark of it, which holds what LeFleet wrote last:

- a digest, while the section is LeFleet's. Before a file is written, its mark holds two: what
  stands there and what is about to. So after a kill in between, either is still known as ours.
- `human`, from the moment at which the section was found to be different, or gone. It is never
  written again while the page exists.

A page whose file is gone is written anew, with all of its sections: that hands it back.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lefleet.knowledge.fences import (
    Part,
    Section,
    digest,
    fenced,
    join,
    newline_of,
    split,
)
from lefleet.knowledge.front_matter import CONFIRMED, PageText, changed, read_page, written

HUMAN = "human"
_ABSENT = "absent"
STATUS = "front:status"
"""The mark of the page's status, which is one field and no section."""
DRAFT = "page:draft"
"""The mark of the whole draft that was written last."""


class Draft(NamedTuple):
    """What LeFleet would write, if the page were all its own."""

    path: str
    """Relative to the knowledge folder."""
    fields: dict[str, Any]
    """Of the front matter."""
    sections: dict[str, str]
    """Markdown by name, in the order of the page."""


def draft_digest(draft: Draft) -> str:
    return digest(repr(draft))


class Merged(NamedTuple):
    """The new page, and the marks to write before and after its file."""

    text: str
    before: dict[str, str]
    after: dict[str, str]


NOTES = """
## Notes

Write here. Whatever stands outside the marked sections is yours and stays as it is.
"""
"""End of a new page."""


def merge(current: str | None, draft: Draft, marks: Mapping[str, str]) -> Merged:
    """Unreadable where the page cannot be understood; then nothing may be written."""
    if current is None:
        return _new(draft)
    page = read_page(current)
    parts = split(page.body)
    theirs = {part.name: part for part in parts if isinstance(part, Section)}
    before, after = {}, {}
    for name, text in draft.sections.items():
        section = theirs.get(name)
        standing = digest(section.text) if section else _ABSENT
        if not _is_ours(standing, marks.get(name)):
            before[name] = after[name] = HUMAN
            continue
        ours = fenced(name, text, newline_of(section) if section else _newline(page))
        after[name] = digest(ours.text)
        before[name] = _either(standing, after[name])
        parts = _put(parts, ours, list(draft.sections))
    fields = dict(draft.fields)
    standing = digest(page.front.status)
    if page.front.status != CONFIRMED and _is_ours(standing, marks.get(STATUS)):
        after[STATUS] = digest(fields["status"])
        before[STATUS] = _either(standing, after[STATUS])
    else:
        before[STATUS] = after[STATUS] = HUMAN
        fields["status"] = page.front.status
    confirmed = {name: one for name, one in page.front.lessons.items() if one == CONFIRMED}
    fields["lessons"] = fields["lessons"] | confirmed
    head = changed(page, fields)
    return Merged(head.before + head.yaml + head.after + join(parts), before, after)


def _new(draft: Draft) -> Merged:
    marks = {name: digest(text) for name, text in draft.sections.items()}
    marks[STATUS] = digest(draft.fields["status"])
    sections = "\n".join(join([fenced(name, text)]) for name, text in draft.sections.items())
    return Merged(f"---\n{written(draft.fields)}---\n\n{sections}{NOTES}", marks, marks)


def _is_ours(standing: str, mark: str | None) -> bool:
    """Whether what stands in the file is what LeFleet left there."""
    if mark is None:
        return standing == _ABSENT
    return standing in mark.split()


def _either(standing: str, coming: str) -> str:
    return coming if standing == coming else f"{standing} {coming}"


def _newline(page: PageText) -> str:
    return "\r\n" if page.before.endswith("\r\n") else "\n"


def _put(parts: list[Part], section: Section, order: list[str]) -> list[Part]:
    """The section in its place: where it stands, or else behind those that come before it."""
    names = [part.name if isinstance(part, Section) else "" for part in parts]
    if section.name in names:
        at = names.index(section.name)
        standing = parts[at]
        begin = standing.begin if isinstance(standing, Section) else section.begin
        end = standing.end if isinstance(standing, Section) else section.end
        return [*parts[:at], section._replace(begin=begin, end=end), *parts[at + 1 :]]
    earlier = order[: order.index(section.name)]
    at = max((n + 1 for n, name in enumerate(names) if name in earlier), default=len(parts))
    newline = newline_of(section)
    before = join(parts[:at])
    gap = newline if before.endswith("\n") or not before else 2 * newline
    return [*parts[:at], gap, section, *parts[at:]]


def human_sections(page: PageText, marks: Mapping[str, str]) -> list[str]:
    """Names of the generated sections that a person has changed."""
    sections = [part for part in split(page.body) if isinstance(part, Section)]
    return [
        one.name
        for one in sections
        if one.name in marks and not _is_ours(digest(one.text), marks[one.name])
    ]
