"""The file: head, contents, sections and foot; written all or not at all."""

import time
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from lefleet.durable import write_durably
from lefleet.errors import BadInput
from lefleet.queries.cycles import cycle_detail
from lefleet.queries.events import events
from lefleet.queries.paging import MOST
from lefleet.queries.run import RunDetail, run_detail, stage_seeds
from lefleet.queries.runs import RunReader
from lefleet.reports.cycles import success_section, tasks_section
from lefleet.reports.films import ReportFilms, choose_films
from lefleet.reports.gates import gates_section
from lefleet.reports.html import Markup, element, joined, moment
from lefleet.reports.origins import (
    budgets_section,
    config_section,
    films_section,
    lineage_section,
    people_section,
    training_section,
)
from lefleet.reports.summary import flow, head
from lefleet.stages.progress import Progress, Update, silent

REPORT = "report.html"
"""In the folder of a run, unless another file is named."""
_MARK = "<!-- LeFleet report -->"
_POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"


class ReportWritten(NamedTuple):
    """A report on disk."""

    path: Path
    size: int
    """Bytes."""
    films: int
    films_left_out: int


def write_report(
    reader: RunReader, run: str, out: Path, *, films: int, progress: Progress = silent
) -> ReportWritten:
    """A run as it is now, with films of so many pairs and evaluated episodes. Raises BadInput, and
    writes nothing, where there is no such run or `out` is something other than an earlier
    report."""
    _require_free(out)
    progress(Update.phase("reading the run"))
    detail = run_detail(reader, run)
    progress(Update.phase("reading films"))
    chosen = choose_films(reader, detail, films)
    progress(Update.phase("writing the report"))
    content = page(reader, detail, chosen).encode()
    try:
        write_durably(out, content)
    except OSError as error:
        out.with_name(f"{out.name}.partial").unlink(missing_ok=True)
        raise BadInput(
            f"out: {out} cannot be written: {error.strerror}.", "Name another file with --out."
        ) from error
    return ReportWritten(out, len(content), chosen.shown, chosen.left_out)


def page(reader: RunReader, detail: RunDetail, films: ReportFilms) -> str:
    """The whole file."""
    run, status = detail.status.id, detail.status
    cycles = [cycle_detail(reader, run, one.index) for one in status.cycles]
    people = events(reader.ledger, run, group="people", limit=MOST)
    sections = {
        "Current cycle": flow(detail.flow) if status.word not in ("finished", "unreadable") else "",
        "Success over cycles": success_section(detail),
        "Tasks": tasks_section(detail),
        "Gates": gates_section(cycles, status.approvals, films),
        "Films": films_section(films),
        "Training": training_section(detail),
        "Lineage": lineage_section(detail),
        "Budgets": budgets_section(status.budgets, status.device_hours) if status.budgets else "",
        "People": people_section(people.items, is_all=people.next_before is None),
        "Configuration, seeds and versions": config_section(detail, stage_seeds(reader, run)),
    }
    numbered = [
        (f"part-{number}", title, body)
        for number, (title, body) in enumerate(sections.items(), 1)
        if body
    ]
    now = time.time()
    body = element(
        "body",
        element(
            "main",
            head(detail, cycles, now),
            _contents([(name, title) for name, title, _ in numbered]),
            *(
                element("section", element("h2", title, id=name), part, aria_labelledby=name)
                for name, title, part in numbered
            ),
            _foot(now),
        ),
    )
    return joined([Markup(f"<!doctype html>\n{_MARK}\n"), _html(run, body), Markup("\n")])


def _html(run: str, body: Markup) -> Markup:
    style = files("lefleet.reports").joinpath("style.css").read_text()
    top = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{run}: LeFleet report"),
        element("style", Markup(style)),
    )
    return element("html", top, body, lang="en")


def _contents(parts: list[tuple[str, str]]) -> Markup:
    links = [element("li", element("a", title, href=f"#{name}")) for name, title in parts]
    return element("nav", element("ul", *links), aria_label="Contents")


def _foot(now: float) -> Markup:
    zone = time.strftime("%Z", time.localtime(now))
    said = ("Written by LeFleet on ", moment(now), f" {zone}. All times are in this time zone.")
    return element("footer", element("p", *said, class_="muted small"))


def _require_free(out: Path) -> None:
    """Only an earlier report may be replaced."""
    if not out.parent.is_dir():
        raise BadInput(f"out: there is no folder {out.parent}.", "Name a file in one that exists.")
    try:
        with out.open("rb") as file:
            beginning = file.read(100)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadInput(f"out: {out}: {error.strerror}.", "Name a file with --out.") from error
    if _MARK.encode() not in beginning:
        raise BadInput(
            f"out: {out} is there, and is no report of LeFleet.", "Name another file, or remove it."
        )
