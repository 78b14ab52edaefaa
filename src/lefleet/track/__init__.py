"""Log a run's series to trackers: trackio on this machine, W&B as files that can be uploaded.

    series     what is logged: rows of numbers by step, each with an identity that never changes
    outbox     what is logged already, and a process that logs the rest
    sender     that process: one writer for each tracker, with a time limit
    trackers   the writers: every point once, however often they are started
    names      which trackers there are, whether they are installed, and where they write

Imports `errors`, `records`, `process` and `ledger`; `loop` makes the series of a run and calls
`track_new`, `cli` starts sender and writers. All that is logged is derived from the ledger, so
nothing is lost where a process is killed. A run never waits for any of this, and imports none of
the trackers.
"""

from lefleet.track.names import require_trackers
from lefleet.track.outbox import track_new

__all__ = ["require_trackers", "track_new"]
