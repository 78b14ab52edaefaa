"""`lefleet track exec WORKDIR RUN`: the process that has a run's series logged, and exits.

It starts one writer for each tracker and stops one that takes too long. What a tracker does not
take is an event; the next decision brings the next try, with everything that is missing.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from lefleet.errors import BadInput, Denied, LeFleetError, StageFailed
from lefleet.ledger import Ledger, open_ledger
from lefleet.process import exit_words, launch, oom_kills, stop
from lefleet.process.errand import do_errand
from lefleet.records import Tracker
from lefleet.track.outbox import LOCK, LOG, decisions, pending, set_handled

TRIES = 2
LIMIT_S = 120.0
"""That a writer may take; it needs seconds."""


def send_pending(workdir: Path, run: str) -> int:
    """Have all logged that is not logged yet; the exit code. Returns at once where another process
    does it."""
    folder = workdir / run
    try:
        with closing(open_ledger(workdir, create=False, migrate=False)) as ledger:
            row = ledger.run(run)
            if row is None:
                raise BadInput(f"run: there is no run called {run} in {workdir}.")
            trackers = msgspec.convert(row.corrected_config.get("track", ()), tuple[Tracker, ...])
            do_errand(
                folder / LOCK,
                lambda: pending(ledger, folder, run, trackers),
                lambda: _send(ledger, workdir, run, trackers),
            )
    except (LeFleetError, OSError, msgspec.ValidationError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _send(ledger: Ledger, workdir: Path, run: str, trackers: Sequence[Tracker]) -> None:
    for tracker in pending(ledger, workdir / run, run, trackers):
        decided, problem = decisions(ledger, run), ""
        for _ in range(TRIES):
            problem = log_to(tracker, workdir, run)
            if not problem:
                break
        if problem:
            data = {"tracker": tracker, "error": problem, "cycle": decided - 1}
            ledger.add_event(run, "track_failed", data)
        set_handled(workdir / run, tracker, decided)


def log_to(tracker: Tracker, workdir: Path, run: str) -> str:
    """Log a whole run to a tracker; why that did not work, or an empty string."""
    argv = (sys.executable, "-m", "lefleet", "track", "write", str(workdir), run, tracker)
    before, file = oom_kills(), workdir / run / LOG
    with file.open("ab") as log:
        log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {tracker}\n".encode())
        log.flush()
        begin = log.tell()
        try:
            child = launch(argv, stdout=log, stderr=log, may_fork=False)
        except (Denied, StageFailed) as error:
            return str(error)
        try:
            code = child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"{tracker} did not take it within {LIMIT_S:g} s."
        finally:
            stop(child, grace_s=1.0)
    if not code:
        return ""
    said = file.read_bytes()[begin:].decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(said) if line.strip()), "")
    return f"The writer {exit_words(code, before)}{f': {last}' if last else ''}"
