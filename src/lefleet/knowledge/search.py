"""Reading the pages: a list of them, full text search, and extracts for a language model."""

import html
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lefleet.knowledge.bundle import FOLDER, page_files, read_text
from lefleet.knowledge.drafts import page_path
from lefleet.knowledge.fences import Section, Unreadable, split
from lefleet.knowledge.front_matter import PageText, read_page
from lefleet.knowledge.markup import clean
from lefleet.knowledge.merge import NOTES
from lefleet.records.border import Strict

_IN_NAME, _IN_HEADING = 10.0, 3.0
"""How much more a word counts there than in the text."""
_LINK = re.compile(r"!?\[((?:[^\]\\]|\\.)*)\]\([^()\s]*\)")
_PICTURE = re.compile(r"^!\[[^\n]*\)\n", re.MULTILINE)
_BOLD = re.compile(r"(?<!\\)\*\*")
_ESCAPED = re.compile(r"\\([\\`*\[\]|~_])")
_FENCE = re.compile(r"<!-- lefleet:(begin|end) [a-z0-9-]+ -->\s*")
_TOLD = ("lessons", "failures", "questions", "people")
"""Sections that help to propose; tables of results are known from the ledger."""


class PageEntry(Strict, frozen=True, kw_only=True):
    """A page in the list of pages."""

    page: str
    """Relative to the knowledge folder."""
    name: str
    type: str
    status: str
    updated: str
    problem: str = ""
    """Why it cannot be read; then the others are empty."""


class SearchHit(Strict, frozen=True, kw_only=True):
    """A page that words were found in, and the line that fits best."""

    page: str
    name: str
    status: str
    score: float
    line: int
    text: str


def pages(workdir: Path) -> list[PageEntry]:
    """All pages, by type and name."""
    folder = workdir / FOLDER
    return [_entry(folder, path) for path in page_files(folder)]


def _entry(folder: Path, path: str) -> PageEntry:
    try:
        front = read_page(read_text(folder / path) or "").front
    except Unreadable as error:
        return PageEntry(page=path, name="", type="", status="", updated="", problem=str(error))
    return PageEntry(
        page=path, name=front.name, type=front.type, status=front.status, updated=front.updated
    )


def search(workdir: Path, words: Sequence[str]) -> list[SearchHit]:
    """Pages with all of the words, best first; also pages that cannot be parsed."""
    wanted = [fold(word) for one in words for word in one.split()]
    folder, found = workdir / FOLDER, []
    for path in page_files(folder) if wanted else ():
        try:
            text = read_text(folder / path) or ""
        except Unreadable:
            continue
        hit = _hit(path, text, wanted)
        if hit is not None:
            found.append(hit)
    return sorted(found, key=lambda one: (-one.score, one.page))


def _hit(path: str, text: str, wanted: Sequence[str]) -> SearchHit | None:
    try:
        page = read_page(text)
    except Unreadable:
        name, status, body = Path(path).stem, "unreadable", text
    else:
        name, status, body = page.front.name, page.front.status, page.body
    skipped = text.count("\n", 0, len(text) - len(body))
    lines = [plain(line) for line in body.split("\n")]
    folded, title = [fold(line) for line in lines], fold(name)
    everything = "\n".join((title, *folded))
    if not all(word in everything for word in wanted):
        return None
    counts = [sum(word in line for word in wanted) for line in folded]
    scores = [
        count * (_IN_HEADING if line.startswith("#") else 1.0)
        for count, line in zip(counts, folded, strict=True)
    ]
    best = max(range(len(lines)), key=lambda at: (counts[at], scores[at], -at)) if lines else 0
    score = sum(scores) / (len(lines) + 10) + max(scores, default=0.0)
    score += _IN_NAME * sum(word in title for word in wanted)
    return SearchHit(
        page=path,
        name=name,
        status=status,
        score=round(score, 3),
        line=skipped + best + 1,
        text=lines[best].strip() if lines and scores[best] else "",
    )


def fold(text: str) -> str:
    """Without case and accents: `Übung` is found as `ubung`, `Straße` as `strasse`."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def plain(markdown: str) -> str:
    """A line without fences, targets of links, marks of bold text and escapes."""
    text = _BOLD.sub("", _LINK.sub(r"\1", _FENCE.sub("", markdown)))
    return html.unescape(_ESCAPED.sub(r"\1", text))


def without_links(markdown: str) -> str:
    """A page's text for a terminal: only the words of links, and neither pictures nor fences."""
    return _LINK.sub(r"\1", _FENCE.sub("", _PICTURE.sub("", markdown.removesuffix(NOTES))))


def context(workdir: Path, tasks: Sequence[str], limit: int = 6000) -> list[dict[str, Any]]:
    """What the pages of `tasks` and of their policies tell, for a language model: plain data, in
    all at most `limit` characters of text. People may have written anything into it."""
    folder = workdir / FOLDER
    paths = [page_path("task", task) for task in dict.fromkeys(tasks)]
    paths += [path for path in page_files(folder) if path.startswith("policies/")]
    found: list[tuple[str, PageText]] = []
    for path in paths:
        try:
            found.append((path, read_page(read_text(folder / path) or "")))
        except Unreadable:
            continue
    wanted = {clean(task) for task in tasks}
    relevant = [
        (path, page)
        for path, page in found
        if page.front.type == "task" or wanted & set(page.front.tasks)
    ]
    share = limit // max(1, len(relevant))
    return [
        {
            "page": path,
            "name": clean(page.front.name),
            "type": page.front.type,
            "status": page.front.status,
            "text": _extract(page, share),
        }
        for path, page in relevant
    ]


def _extract(page: PageText, limit: int) -> str:
    """What people wrote, then what was learned."""
    try:
        parts = split(page.body)
    except Unreadable:
        return ""
    written = "".join(part for part in parts if not isinstance(part, Section))
    notes = [] if written.strip() == NOTES.strip() else [written]
    told = [part.text for part in parts if isinstance(part, Section) and part.name in _TOLD]
    lines = [clean(plain(line), 1000) for part in (*notes, *told) for line in part.splitlines()]
    text = "\n".join(line for line in lines if line)
    return text if len(text) <= limit else (text[: max(0, limit - 1)] + "…")[:limit]
