"""What people see of a run beside its results: knowledge pages, messages, and trackers."""

import traceback
from pathlib import Path

from lefleet.errors import LeaseLost, LedgerUnavailable
from lefleet.knowledge import ingest
from lefleet.ledger import Ledger, RunRow
from lefleet.notify import notify_new
from lefleet.records import RunConfig
from lefleet.track import track_new


class Outlook:
    """Kept up to date by the run's controller. None of it can fail a run: what goes wrong is an
    event, and in the controller's log."""

    def __init__(self, ledger: Ledger, workdir: Path, run: str, config: RunConfig) -> None:
        self._ledger = ledger
        self._workdir = workdir
        self._run = run
        self._config = config

    def refresh(self, ending: RunRow | None = None) -> None:
        """Bring the knowledge pages up to date; `ending` is the row of a run that is about to end
        or to wait."""
        try:
            ingest(self._ledger, self._workdir, self._run, ending)
        except (LedgerUnavailable, LeaseLost):
            raise
        except Exception as error:  # noqa: BLE001 - pages only advise, whatever is wrong with them
            traceback.print_exc()
            self._ledger.add_event(
                self._run, "knowledge_failed", {"error": f"{type(error).__name__}: {error}"}
            )

    def tell(self) -> None:
        """Tell people what they want to be told of, and trackers what was decided."""
        notify_new(self._ledger, self._workdir, self._run, self._config.notify)
        track_new(self._ledger, self._workdir, self._run, self._config.track)
