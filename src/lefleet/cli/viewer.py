"""Look at a run until it ends. Looking changes nothing; Ctrl-C leaves the run alone."""

import sys
import time
from pathlib import Path

from lefleet.cli.display import show_progress
from lefleet.ledger import EventRow, Ledger
from lefleet.loop.requests import stage_folder
from lefleet.loop.runs import is_controlled
from lefleet.stages import Update
from lefleet.stages.child import read_progress

_POLL_S = 0.25
PATIENCE_S = 30.0
"""How long a run may be without a controller before the viewer says that it is gone."""


def view(ledger: Ledger, workdir: Path, run: str) -> str:
    """Show events and progress; returns the state in which the run ended, or `gone`."""
    seen = 0
    current: tuple[int, str] | None = None
    shown: Update | None = None
    alone_since = time.monotonic()
    with show_progress(run, as_lines=not sys.stderr.isatty()) as progress:
        while True:
            for event in ledger.events(run, after=seen):
                seen = event.id
                _say(event)
                if event.kind == "stage_started":
                    current = (event.data["cycle"], event.data["stage"])
                elif event.kind.startswith("stage_"):
                    current = None
            row = ledger.run(run)
            is_at_work = is_controlled(workdir / run)
            if row is None:
                return "gone"
            if row.state != "running" and not is_at_work:
                return row.state
            if current is not None:
                update = read_progress(stage_folder(workdir / run, *current))
                if update is not None and update != shown:
                    progress(update)
                    shown = update
            if is_at_work:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since > PATIENCE_S:
                return "gone"
            time.sleep(_POLL_S)


def _say(event: EventRow) -> None:
    """One calm line for what a person wants to know; the rest is in events.jsonl."""
    data = event.data
    where = f"cycle {data['cycle']}" if "cycle" in data else ""
    match event.kind:
        case "stage_committed":
            text = f"{where}: {data['stage']} done"
        case "stage_failed" | "stage_gone" | "stage_cancelled" | "stage_skipped":
            text = f"{where}: {data['stage']} {event.kind[6:]}: {data['error']}"
        case "decision":
            text = f"{where}: {data['decision'].upper()}: {data['why']}"
        case "run_resumed" | "stop_requested":
            text = event.kind.replace("_", " ")
        case _:
            return
    print(time.strftime("%H:%M:%S", time.localtime(event.at)), text, file=sys.stderr, flush=True)
