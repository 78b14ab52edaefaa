"""knowledge: show, search, check, update and edit the pages that runs wrote."""

import sys
from contextlib import closing
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text
from tyro.conf import Positional, arg

from lefleet.actions.people import user_name
from lefleet.cli.display import console, table
from lefleet.cli.options import OutputOptions, WorkdirOptions
from lefleet.cli.output import print_json, printable
from lefleet.cli.parse import absolute
from lefleet.errors import BadInput
from lefleet.ledger import open_ledger, read_ledger
from lefleet.queries.words import workdir_flag

if TYPE_CHECKING:
    from lefleet.knowledge.search import PageEntry

_COLOURS = {"contradicted": "red", "replicated": "green", "human-confirmed": "green"}
_LONGEST_LINE = 160
_EMPTY = "No pages yet: they are written after each cycle of lefleet run."


@dataclass(frozen=True, kw_only=True)
class KnowledgeOptions(WorkdirOptions):
    """All of them have these."""


@dataclass(frozen=True, kw_only=True)
class KnowledgeShowCommand(KnowledgeOptions):
    """List the pages with their status, or show one of them."""

    page: Annotated[str, Positional, arg(metavar="[PAGE]")] = ""
    """Name of a task, policy or run, or the page's path as in the list. Default: the list."""


@dataclass(frozen=True, kw_only=True)
class KnowledgeLintCommand(KnowledgeOptions):
    """Check the pages: broken, behind the ledger, or contradicted by newer evidence. The exit code
    is 1 where something was found."""


@dataclass(frozen=True, kw_only=True)
class KnowledgeSearchCommand(KnowledgeOptions):
    """Find words in the pages; case and accents do not matter."""

    words: Annotated[tuple[str, ...], Positional, arg(metavar="WORD ...")]
    """All of them must occur."""


@dataclass(frozen=True, kw_only=True)
class KnowledgeUpdateCommand(KnowledgeOptions):
    """Write the pages of all runs from the ledger, for instance of runs that are older than them.
    What people edited stays."""


@dataclass(frozen=True, kw_only=True)
class KnowledgeEditCommand(KnowledgeOptions):
    """Replace the text of a page. What you change in a generated section is yours from then on, and
    the ledger keeps who edited it. Saving the file with an editor has the same effect, without that
    record."""

    page: Annotated[str, Positional, arg(metavar="PAGE")]
    """Name of a task, policy or run, or the page's path as in the list."""
    file: str
    """File with the new text of the whole page; - reads it from stdin."""
    base: str = ""
    """Digest of the text that yours was made from, as knowledge show PAGE --json prints it; refused
    where the page has changed since. Default: the page as it is now."""


KNOWLEDGE_COMMANDS: dict[str, type[OutputOptions]] = {
    "knowledge show": KnowledgeShowCommand,
    "knowledge lint": KnowledgeLintCommand,
    "knowledge search": KnowledgeSearchCommand,
    "knowledge update": KnowledgeUpdateCommand,
    "knowledge edit": KnowledgeEditCommand,
}


def run_knowledge(command: KnowledgeOptions) -> int:
    workdir = absolute(command.workdir, "workdir")
    match command:
        case KnowledgeShowCommand(page=""):
            return _list(command, workdir)
        case KnowledgeShowCommand():
            return _show(command, workdir)
        case KnowledgeLintCommand():
            return _lint(command, workdir)
        case KnowledgeSearchCommand():
            return _search(command, workdir)
        case KnowledgeUpdateCommand():
            return _update(command, workdir)
        case KnowledgeEditCommand():
            return _edit(command, workdir)
    raise AssertionError(f"no function runs {command}")


def _list(command: KnowledgeShowCommand, workdir: Path) -> int:
    from lefleet.knowledge import pages

    found = pages(workdir)
    if command.json:
        print_json(found)
        return 0
    out = console()
    if not found:
        out.print(_EMPTY)
        return 0
    shown = table("page", "status", "updated (UTC)")
    for one in found:
        status = Text(one.status or "unreadable", _COLOURS.get(one.status, ""))
        shown.add_row(printable(one.page), status, one.updated[:16].replace("T", " "))
    out.print(shown)
    print(f"Show one: lefleet knowledge show NAME{workdir_flag(workdir)}")
    return 0


def _show(command: KnowledgeShowCommand, workdir: Path) -> int:
    from lefleet.knowledge.bundle import FOLDER
    from lefleet.knowledge.fences import Unreadable
    from lefleet.knowledge.front_matter import read_page
    from lefleet.queries.knowledge import page_source

    name = _page(command.page, workdir)
    path = workdir / FOLDER / name
    text, digest = page_source(workdir, name)
    try:
        page = read_page(text)
    except Unreadable as error:
        raise BadInput(f"page: {name} cannot be read: {error}.", f"Mend it: {path}") from error
    if command.json:
        told = {"page": name, "path": str(path), "markdown": page.body, "digest": digest}
        print_json({**page.fields, **told})
        return 0
    out, front = console(), page.front
    head = f"{front.type} {front.name}: {front.status}, updated {front.updated[:16]} UTC"
    out.print(Text(printable(head), _COLOURS.get(front.status, "bold")))
    _print_markdown(page.body)
    out.print(Text(printable(str(path)), "dim"))
    return 0


def _page(given: str, workdir: Path) -> str:
    """The page that a person names: by its name, its path in the list, or that of its file."""
    from lefleet.knowledge import pages
    from lefleet.knowledge.bundle import FOLDER

    folder, path = workdir / FOLDER, Path(given).absolute()
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else given
    return _find(name, pages(workdir), workdir_flag(workdir)).page


def _find(name: str, found: "list[PageEntry]", flag: str) -> "PageEntry":
    """The page of this path or name; of several with a name, its type must be in front."""
    same = [one for one in found if name in (one.page, one.page.removesuffix(".md"))]
    same = same or [one for one in found if name in (one.name, Path(one.page).stem)]
    if len(same) == 1:
        return same[0]
    if same:
        paths = ", ".join(one.page for one in same)
        raise BadInput(f"page: {printable(name)} names several pages.", f"Name one of {paths}.")
    if not found:
        raise BadInput(f"page: there is no page {printable(name)}.", _EMPTY)
    known = {
        known: one.page for one in found for known in (one.page, one.name, Path(one.page).stem)
    }
    near = get_close_matches(name.casefold(), [*known], 3, 0.5)
    pages = dict.fromkeys(known[one] for one in near)
    see = f"See: lefleet knowledge show{flag}"
    hint = f"Did you mean {' or '.join(pages)}?" if pages else see
    raise BadInput(f"page: there is no page {printable(name)}.", hint)


def _print_markdown(body: str) -> None:
    """As text in a terminal: without the targets of links, and whatever a page contains, it does
    not control the terminal."""
    from rich.markdown import Markdown

    from lefleet.knowledge.search import without_links

    out = console()
    for line in out.render_lines(Markdown(without_links(body)), pad=False):
        parts = [(printable(one.text), one.style or "") for one in line if not one.control]
        shown = Text.assemble(*parts)
        shown.rstrip()
        out.print(shown)


def _lint(command: KnowledgeLintCommand, workdir: Path) -> int:
    from lefleet.knowledge import lint
    from lefleet.knowledge.markup import counted
    from lefleet.queries.knowledge import remedy

    with closing(read_ledger(workdir)) as ledger:
        found = lint(ledger, workdir)
    if command.json:
        print_json(found)
        return 1 if found else 0
    out = console()
    for one in found:
        out.print(
            Text.assemble((printable(one.page), "bold"), f" {one.rule}: {printable(one.text)}")
        )
        out.print(Text(f"  {printable(remedy(one))}", "dim"))
    out.print(counted(len(found), "finding") if found else "The pages agree with the ledger.")
    return 1 if found else 0


def _search(command: KnowledgeSearchCommand, workdir: Path) -> int:
    from lefleet.knowledge import search

    if not any(word.strip() for word in command.words):
        raise BadInput(
            "search needs at least one word.", "For instance: lefleet knowledge search push"
        )
    found = search(workdir, command.words)
    if command.json:
        print_json(found)
        return 0
    out = console()
    for one in found:
        out.print(Text.assemble((printable(f"{one.page}:{one.line}"), "bold"), f" {one.status}"))
        out.print(f"  {_around(one.text, command.words[0])}")
    if not found:
        out.print(f"No page has {printable(' and '.join(command.words))}.")
    return 0


def _around(line: str, word: str) -> str:
    """The part of a long line where the first word is."""
    at = line.casefold().find(word.casefold())
    start = max(0, min(at - 40, len(line) - _LONGEST_LINE))
    shown = line[start : start + _LONGEST_LINE]
    end = "…" if start + _LONGEST_LINE < len(line) else ""
    return printable(f"{'…' if start else ''}{shown}{end}")


def _update(command: KnowledgeUpdateCommand, workdir: Path) -> int:
    from lefleet.knowledge import update
    from lefleet.knowledge.markup import counted

    with closing(open_ledger(workdir, create=False, migrate=False)) as ledger:
        changed = update(ledger, workdir)
    if command.json:
        print_json({"changed": changed})
        return 0
    for page in changed:
        console().print(printable(page))
    written = f"{counted(len(changed), 'page')} written."
    console().print(written if changed else "All pages are up to date.")
    return 0


def _edit(command: KnowledgeEditCommand, workdir: Path) -> int:
    from lefleet.actions.pages import edit_page
    from lefleet.queries.knowledge import page_source

    text, name = _text(command.file), _page(command.page, workdir)
    base = command.base or page_source(workdir, name)[1]
    saved = edit_page(workdir, name, text, base, user_name())
    if command.json:
        print_json(saved)
    else:
        console().print(
            f"{printable(name)} {'is saved' if saved.is_changed else 'has that text already'}."
        )
    return 0


def _text(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else absolute(file, "file").read_bytes()
        return content.decode()
    except OSError as error:
        raise BadInput(f"file: {printable(file)} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"file: {printable(file)} is not UTF-8 text.") from error
