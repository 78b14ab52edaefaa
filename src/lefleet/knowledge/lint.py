"""Lint: pages that are broken, behind the ledger, or contradicted by it, and what to do then."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from lefleet.knowledge.bundle import FOLDER, page_files, read_text
from lefleet.knowledge.comparisons import disagreements
from lefleet.knowledge.drafts import Known, page_path
from lefleet.knowledge.facts import read_facts
from lefleet.knowledge.fences import Unreadable, split
from lefleet.knowledge.front_matter import CONFIRMED, PageText, read_page
from lefleet.knowledge.ingest import all_drafts
from lefleet.knowledge.lessons import Lesson
from lefleet.knowledge.markup import clean, counted, listed
from lefleet.knowledge.merge import STATUS, Draft, human_sections
from lefleet.ledger import Ledger
from lefleet.records.border import Strict

LintRule = Literal[
    "unreadable", "schema", "provenance", "link", "missing", "stale", "contradiction", "human"
]
_ABOUT_EVIDENCE = ("contradiction", "human")
"""What a proposal can do something about; the others are about files."""
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")
_UPDATE = "lefleet knowledge update"
_LONGEST_SUGGESTION = 240
_MOST_SUGGESTIONS = 10


class Finding(Strict, frozen=True, kw_only=True):
    """Something about a page that a person should look at."""

    page: str
    """Relative to the knowledge folder."""
    rule: LintRule
    text: str
    suggestion: str


def lint(ledger: Ledger, workdir: Path) -> list[Finding]:
    """All findings, by page. Reads only."""
    folder, known = workdir / FOLDER, Known(read_facts(ledger))
    drafts = {draft.path: draft for draft in all_drafts(known)}
    present = page_files(folder)
    pages: dict[str, PageText] = {}
    found: list[Finding] = []
    for path in present:
        try:
            pages[path] = _page(folder / path)
        except Unreadable as error:
            found.append(_unreadable(path, error))
    found += _unresolved(ledger, pages)
    for path, page in pages.items():
        found += _broken_links(folder, path, page)
        found += _stale(path, page, drafts.get(path))
        found += _overtaken(ledger, path, page, known)
    found += [_missing(path) for path in drafts if path not in present]
    found += _contradictions(known)
    return sorted(found, key=lambda one: (one.page, one.rule, one.text))


def suggestions(findings: Iterable[Finding]) -> list[str]:
    """What findings mean for the next proposal: a few short sentences, each once."""
    said = [one.suggestion for one in findings if one.rule in _ABOUT_EVIDENCE]
    return [clean(one, _LONGEST_SUGGESTION) for one in dict.fromkeys(said)][:_MOST_SUGGESTIONS]


def _page(path: Path) -> PageText:
    page = read_page(read_text(path) or "")
    split(page.body)
    return page


def _unreadable(path: str, error: Unreadable) -> Finding:
    return Finding(
        page=path,
        rule="schema" if error.is_schema else "unreadable",
        text=f"LeFleet leaves this page alone: {error}.",
        suggestion="Mend it; or delete the file, and LeFleet writes it again.",
    )


def _unresolved(ledger: Ledger, pages: dict[str, PageText]) -> list[Finding]:
    """Provenance that is not in the ledger."""
    named = {
        path: [(event, one.run) for one in page.front.provenance for event in one.events]
        for path, page in pages.items()
    }
    runs = ledger.sections.runs_of_events(event for some in named.values() for event, _ in some)
    found = []
    for path, events in named.items():
        lost = [str(event) for event, run in events if runs.get(event) != run]
        if lost:
            what = f"{_some(lost)} not in the ledger"
        elif not events and pages[path].front.status != CONFIRMED:
            what = "no event of the ledger is named"
        else:
            continue
        found.append(
            Finding(
                page=path,
                rule="provenance",
                text=f"provenance: {what}.",
                suggestion=f"Restore the ledger that the page came from, or: {_UPDATE}",
            )
        )
    return found


def _some(names: Sequence[str]) -> str:
    shown = listed(list(names[:5]))
    return shown if len(names) <= 5 else f"{', '.join(names[:5])} and {len(names) - 5} more"


def _broken_links(folder: Path, path: str, page: PageText) -> list[Finding]:
    targets = dict.fromkeys(_LINK.findall(page.body))
    local = [one.partition("#")[0] for one in targets if not _SCHEME.match(one)]
    lost = [one for one in dict.fromkeys(local) if not _exists((folder / path).parent, one)]
    if not lost:
        return []
    text = f"{counted(len(lost), 'link')} to what does not exist: {clean(_some(lost))}."
    return [
        Finding(
            page=path,
            rule="link",
            text=text,
            suggestion="Restore the files, or leave it: the ledger still has the numbers.",
        )
    ]


def _exists(folder: Path, target: str) -> bool:
    try:
        return (folder / unquote(target)).exists()
    except (OSError, ValueError):
        return False


def _stale(path: str, page: PageText, draft: Draft | None) -> list[Finding]:
    """Rows of the ledger that are newer than the page."""
    if draft is None:
        return []
    newest, state = draft.fields["updated"], draft.fields.get("state", "")
    if page.front.updated >= newest and page.front.state == state:
        return []
    what = f"the ledger has newer rows, of {newest}; the page is of {page.front.updated}"
    if page.front.state != state:
        what = f"its run is {state}, and the page says {clean(page.front.state) or 'nothing'}"
    return [Finding(page=path, rule="stale", text=f"{what}.", suggestion=f"Run: {_UPDATE}")]


def _overtaken(ledger: Ledger, path: str, page: PageText, known: Known) -> list[Finding]:
    """What a person wrote or confirmed, and newer evidence speaks against."""
    against = {
        one.id: one
        for one in known.lessons
        if one.status == "contradicted" and path in _pages_of(one)
    }
    if not against:
        return []
    confirmed = [name for name, one in page.front.lessons.items() if one == CONFIRMED]
    marks = ledger.sections.digests(path)
    edited = [name for name in human_sections(page, marks) if name != STATUS]
    found = [
        _human(path, f"lesson {name} is confirmed by a person", against[name])
        for name in confirmed
        if name in against
    ]
    first = next(iter(against.values()))
    if page.front.status == CONFIRMED:
        found.append(_human(path, "the page is confirmed by a person", first))
    if edited:
        found.append(_human(path, f"a person edited {listed(edited)}", first))
    return found


def _human(path: str, what: str, lesson: Lesson) -> Finding:
    return Finding(
        page=path,
        rule="human",
        text=f"{what}, and newer evidence contradicts it: {lesson.text}",
        suggestion=f"Ask whoever confirmed or edited it, and repeat: {lesson.headline}",
    )


def _missing(path: str) -> Finding:
    return Finding(
        page=path,
        rule="missing",
        text="the ledger has results for this page, and it does not exist.",
        suggestion=f"Run: {_UPDATE}",
    )


def _pages_of(lesson: Lesson) -> set[str]:
    """Pages that tell of a lesson."""
    paths = {page_path("experiment", one.after.run) for one in lesson.comparisons}
    if len(lesson.tasks) == 1:
        paths.add(page_path("task", lesson.tasks[0]))
    if lesson.comparisons[0].is_whole:
        paths |= {page_path("policy", one.after.policy) for one in lesson.comparisons}
    return paths


def _contradictions(known: Known) -> list[Finding]:
    found = []
    for lesson in known.lessons:
        if lesson.status == "contradicted":
            one = len(lesson.tasks) == 1
            page = ("task", lesson.tasks[0]) if one else ("policy", _policy(lesson))
            found.append(
                Finding(
                    page=page_path(*page),  # type: ignore[arg-type]
                    rule="contradiction",
                    text=lesson.text,
                    suggestion=f"Runs disagree, repeat it with another seed: {lesson.headline}",
                )
            )
    for task in known.tasks():
        measured = [one for one in known.measured if one.tasks == (task,)]
        found += [
            Finding(
                page=page_path("task", task),
                rule="contradiction",
                text=one.text,
                suggestion=f"Repeat it with another seed: {one.text}",
            )
            for one in disagreements(measured)
        ]
    return found


def _policy(lesson: Lesson) -> str:
    return lesson.comparisons[0].after.policy
