"""Kills an ingest before and after each of its steps in turn, and prints what a later one makes of
it; then lets several processes ingest at once.

A program of its own, because it forks: `python -m tests.knowledge.killed FOLDER`.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

from lefleet.knowledge import ingest
from lefleet.knowledge.bundle import FOLDER
from lefleet.ledger import open_ledger
from lefleet.ledger.sections import SectionStore
from tests.knowledge.played import Cycle, PlayedRun, even

EDITED = "tasks/push.md"
NOTE = "a note of mine\n"
PROCESSES, ROUNDS = 4, 5


def prepare(workdir: Path) -> None:
    """Pages of a first cycle, edited by a person; evidence of a second one in the ledger."""
    with closing(open_ledger(workdir)) as ledger:
        run = PlayedRun(ledger, workdir, "a")
        run.play(Cycle(demos=2, successes=even(1), decision="baseline"))
        ingest(ledger, workdir, "a")
        page = workdir / FOLDER / EDITED
        text = page.read_text().replace("## Open questions", "## My questions") + NOTE
        page.write_text(text)
        run.play(Cycle(demos=8, successes=even(18), decision="promote", verdict="better"))


def in_child(action: Callable[[], None]) -> int:
    child = os.fork()
    if not child:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return child


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ingest_in(workdir: Path) -> None:
    with closing(open_ledger(workdir)) as ledger:
        ingest(ledger, workdir, "a")


def killed_at(point: int, workdir: Path) -> None:
    """Ingest with a fault planted before or after a write, of the ledger or of a file."""
    points = count()

    def watched(function: Callable) -> Callable:
        def call(*arguments, **named):
            for step in ("before", "after"):
                if next(points) == point:
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == "before":
                    result = function(*arguments, **named)
            return result

        return call

    SectionStore.write = watched(SectionStore.write)
    Path.replace = watched(Path.replace)
    os.link = watched(os.link)
    ingest_in(workdir)


def pages(workdir: Path) -> dict[str, str]:
    folder = workdir / FOLDER
    return {str(path.relative_to(folder)): path.read_text() for path in folder.glob("*/*.md")}


def marks(workdir: Path) -> dict[str, dict[str, str]]:
    with closing(open_ledger(workdir)) as ledger:
        return {page: ledger.sections.digests(page) for page in pages(workdir)}


def main() -> None:
    base = Path(sys.argv[1])
    prepare(base / "before")
    shutil.copytree(base / "before", base / "whole")
    ingest_in(base / "whole")
    expected, settled = pages(base / "whole"), marks(base / "whole")
    found = []
    for point in count():
        workdir = base / f"killed-{point}"
        shutil.copytree(base / "before", workdir)
        code = wait(in_child(lambda point=point, workdir=workdir: killed_at(point, workdir)))
        left = pages(workdir)
        ingest_in(workdir)
        found.append(
            {
                "code": code,
                "torn": [page for page, text in left.items() if not text.endswith("\n")],
                "pages": pages(workdir) == expected,
                "marks": marks(workdir) == settled,
            }
        )
        if code != -signal.SIGKILL:
            break
    shared = base / "before"
    children = [
        in_child(lambda: [ingest_in(shared) for _ in range(ROUNDS)]) for _ in range(PROCESSES)
    ]
    codes = [wait(child) for child in children]
    print(
        json.dumps(
            {
                "killed": found,
                "edited": expected[EDITED],
                "at_once": {
                    "codes": codes,
                    "pages": pages(shared) == expected,
                    "marks": marks(shared) == settled,
                },
            }
        )
    )


if __name__ == "__main__":
    main()
