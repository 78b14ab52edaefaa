"""Ingest: the pages that a run's evidence belongs to, written anew from the ledger."""

from pathlib import Path

from lefleet.errors import LeFleetError
from lefleet.knowledge.bundle import FOLDER, locked, read_text, replace, write_about
from lefleet.knowledge.drafts import Known
from lefleet.knowledge.experiment_page import experiment_draft
from lefleet.knowledge.facts import RunFacts, read_facts
from lefleet.knowledge.fences import Unreadable
from lefleet.knowledge.merge import DRAFT, Draft, draft_digest, merge
from lefleet.knowledge.policy_page import policy_draft
from lefleet.knowledge.task_page import task_draft
from lefleet.ledger import Ledger, RunRow

_TRIES = 5
"""Times that a page is merged again because a person saved it meanwhile."""


def ingest(ledger: Ledger, workdir: Path, run: str, ending: RunRow | None = None) -> list[str]:
    """Bring the pages of a run, of its tasks and of its policies up to date: from rows of the
    ledger alone, so a second call changes nothing. Returns the pages that changed.

    `ending` is the run's row as it is about to be, where the run has not ended yet. A page that a
    person broke is left alone; lint reports it. LeFleetError where files could not be written; all
    others are by then.
    """
    folder = workdir / FOLDER
    with locked(folder):
        known = Known(read_facts(ledger, ending))
        facts = known.run(run)
        if facts is None:
            return []
        marks = ledger.sections.every()
        drafts = [one for one in drafts_of(known, facts) if not _is_written(folder, one, marks)]
        return write_pages(ledger, folder, drafts)


def _is_written(folder: Path, draft: Draft, marks: dict[str, dict[str, str]]) -> bool:
    """Whether the page is there and the ledger had nothing else to tell when it was written."""
    mark = marks.get(draft.path, {}).get(DRAFT)
    return mark == draft_digest(draft) and (folder / draft.path).exists()


def update(ledger: Ledger, workdir: Path) -> list[str]:
    """Bring the pages of all runs up to date, whatever was written before."""
    folder = workdir / FOLDER
    with locked(folder):
        return write_pages(ledger, folder, all_drafts(Known(read_facts(ledger))))


def drafts_of(known: Known, run: RunFacts) -> list[Draft]:
    """Pages that tell of a run, and of runs whose lessons it replicates or contradicts."""
    tasks = [task for task in known.tasks() if any(task in c.measured for c in run.cycles)]
    policies = {one.policy for c in run.cycles for one in c.measured.values()}
    taught = [{pair.after.run for pair in one.comparisons} for one in known.lessons]
    names = {run.run}.union(*(runs for runs in taught if run.run in runs))
    experiments = [experiment_draft(known, one) for one in known.runs if one.run in names]
    return [
        *(one for one in experiments if one),
        *(task_draft(known, task) for task in tasks),
        *(policy_draft(known, policy) for policy in sorted(policies)),
    ]


def all_drafts(known: Known) -> list[Draft]:
    """Every page that there should be."""
    experiments = [experiment_draft(known, run) for run in known.runs]
    return [
        *(one for one in experiments if one),
        *(task_draft(known, task) for task in known.tasks()),
        *(policy_draft(known, policy) for policy in known.policies()),
    ]


def write_pages(ledger: Ledger, folder: Path, drafts: list[Draft]) -> list[str]:
    """Those that changed. The caller holds the lock of the folder."""
    changed, problems = [], []
    try:
        write_about(folder)
    except OSError as error:
        problems.append(f"{folder}: {error.strerror}")
    for draft in drafts:
        try:
            if _write(ledger, folder, draft):
                changed.append(draft.path)
        except Unreadable:
            continue
        except OSError as error:
            problems.append(f"{draft.path}: {error.strerror}")
    if problems:
        raise LeFleetError(
            f"Knowledge pages could not be written: {'; '.join(problems)}.",
            "Check the disk; they are written after the next cycle.",
        )
    return changed


def _write(ledger: Ledger, folder: Path, draft: Draft) -> bool:
    """The marks of both the old and the new text come first, then the file, then the new marks
    alone: wherever a kill comes, what stands in the file is known as LeFleet's."""
    path = folder / draft.path
    for _ in range(_TRIES):
        current, marks = read_text(path), ledger.sections.digests(draft.path)
        merged = merge(current, draft, marks)
        settled = merged.after | {DRAFT: draft_digest(draft)}
        if merged.text == current:
            _mark(ledger, draft.path, marks, settled)
            return False
        _mark(ledger, draft.path, marks, merged.before)
        if replace(path, current, merged.text):
            _mark(ledger, draft.path, marks | merged.before, settled)
            return True
    return False


def _mark(ledger: Ledger, page: str, now: dict[str, str], wanted: dict[str, str]) -> None:
    if changes := {name: mark for name, mark in wanted.items() if now.get(name) != mark}:
        ledger.sections.write(page, changes)
