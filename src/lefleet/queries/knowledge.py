"""Knowledge pages: which there are, what is wrong with them, and one of them whole."""

import hashlib
from pathlib import Path

from lefleet.errors import BadInput, Unknown
from lefleet.knowledge import Finding, lint
from lefleet.knowledge import pages as list_pages
from lefleet.knowledge import search as search_pages
from lefleet.knowledge.bundle import FOLDER, page_files, read_text
from lefleet.knowledge.fences import Unreadable, split
from lefleet.knowledge.front_matter import PageText, read_page
from lefleet.knowledge.markup import clean
from lefleet.knowledge.merge import human_sections
from lefleet.knowledge.search import PageEntry, SearchHit
from lefleet.ledger import Ledger
from lefleet.queries.dataset_files import stamp
from lefleet.queries.kept import Kept
from lefleet.queries.words import workdir_flag
from lefleet.records.border import Strict

LONGEST_SEARCH = 200


class PageEdit(Strict, frozen=True, kw_only=True):
    """A person saved a page, from a page or with a command."""

    who: str
    at: float
    """Seconds since 1970."""
    digest: str
    """sha256 of the text that was saved."""


class KnowledgePage(Strict, frozen=True, kw_only=True):
    """A page whole. Its text is Markdown that anybody may have written."""

    page: str
    """Relative to the knowledge folder; names it on the pages and in the API."""
    name: str
    type: str
    status: str
    updated: str
    """UTC."""
    body: str
    """Markdown, without front matter and without the lines that mark sections."""
    text: str
    """All of it, to edit."""
    digest: str
    """sha256 of `text`: the `base` of an edit."""
    human_sections: tuple[str, ...]
    """Generated once, and changed by a person since: LeFleet does not write to them any more."""
    edits: tuple[PageEdit, ...]
    """The last ones, newest first."""
    findings: tuple[Finding, ...]
    problem: str
    """Why LeFleet cannot read it; then name, type, status and times are empty."""


def pages(workdir: Path) -> list[PageEntry]:
    """All pages with their status, by type and name."""
    return list_pages(workdir)


def findings(ledger: Ledger, workdir: Path) -> list[Finding]:
    """What is wrong with pages, by page. It takes long where there are many runs, so it is kept
    until something happens or a page changes."""
    folder = workdir / FOLDER
    mark = (ledger.feed.newest(), [(one, stamp(folder / one)) for one in page_files(folder)])
    return _FINDINGS.get(folder, mark, lambda: lint(ledger, workdir))


def remedy(finding: Finding) -> str:
    """What to do about it. The suggestion of a contradiction is made for proposals, and repeats
    what the finding says."""
    what, _, repeated = finding.suggestion.partition(": ")
    if finding.rule == "contradiction" and repeated.rstrip(".") in finding.text:
        return f"{what}."
    return finding.suggestion


_FINDINGS: Kept[list[Finding]] = Kept(8)


def search(workdir: Path, words: str) -> list[SearchHit]:
    """Pages with all of the words, best first."""
    if len(words) > LONGEST_SEARCH:
        raise BadInput(f"words: {len(words)} characters.", f"Use at most {LONGEST_SEARCH}.")
    return search_pages(workdir, words.split())


def page(ledger: Ledger, workdir: Path, name: str) -> KnowledgePage:
    """The page of this path, as `pages` lists it."""
    text, digest = page_source(workdir, name)
    edits = [
        PageEdit(who=one.who, at=one.at, digest=one.digest_after)
        for one in ledger.sections.edits(name)
    ]
    try:
        read = read_page(text)
        problem = ""
    except Unreadable as error:
        read, problem = None, str(error)
    front = read.front if read else None
    return KnowledgePage(
        page=name,
        name=front.name if front else "",
        type=front.type if front else "",
        status=front.status if front else "",
        updated=front.updated if front else "",
        body=_body(read) if read else text,
        text=text,
        digest=digest,
        human_sections=_of_people(ledger, name, read) if read else (),
        edits=tuple(edits),
        findings=tuple(one for one in findings(ledger, workdir) if one.page == name),
        problem=problem,
    )


def page_source(workdir: Path, name: str) -> tuple[str, str]:
    """The text of a page and its digest. Only pages of the list have one, whatever the name."""
    folder = workdir / FOLDER
    shown = clean(name, 80)
    if name not in page_files(folder):
        see = f"See: lefleet knowledge show{workdir_flag(workdir)}"
        raise Unknown(f"page: there is no page {shown!r}.", see)
    try:
        text = read_text(folder / name)
    except Unreadable as error:
        raise BadInput(f"page: {shown} cannot be read: {error}.", "Mend it on disk.") from error
    if text is None:
        raise Unknown(f"page: there is no page {shown!r} any more.", "Somebody has deleted it.")
    return text, hashlib.sha256(text.encode()).hexdigest()


def _body(read: PageText) -> str:
    try:
        parts = split(read.body)
    except Unreadable:
        return read.body
    return "".join(part if isinstance(part, str) else part.text for part in parts)


def _of_people(ledger: Ledger, name: str, read: PageText) -> tuple[str, ...]:
    try:
        return tuple(human_sections(read, ledger.sections.digests(name)))
    except Unreadable:
        return ()
