"""Child processes: one way to start them, one way to share work among them.

    launch       starts a process that the constitution allows, and says how it exited; the only
                 place that starts any
    fork         runs a child's program in a fork of this process; `launch` decides when
    pool         hands work to a few workers as JSON lines and takes answers as they come
    errand       a process beside a run that does what is pending, one at a time
    ask          a program of our own for a report
    liveness     finds processes by a mark in their environment, and tells whether a lock is held or
                 a process has ended

Imports `errors` and `constitution`; `cluster`, `rollouts`, `stages`, `ledger`, `notify`, `track`,
`executors`, `loop`, `testbed`, `trial` and `cli` use it. Data goes down a child's stdin and comes
back on its stdout; its stderr is a log file.
"""

from lefleet.process.ask import NoReport, ask
from lefleet.process.fork import allow_forks, obstacle
from lefleet.process.launch import (
    child_environment,
    exit_words,
    launch,
    oom_kills,
    require_allowed,
    stop,
)
from lefleet.process.liveness import is_held, processes_marked
from lefleet.process.pool import Pool

__all__ = [
    "NoReport",
    "Pool",
    "allow_forks",
    "ask",
    "child_environment",
    "exit_words",
    "is_held",
    "launch",
    "obstacle",
    "oom_kills",
    "processes_marked",
    "require_allowed",
    "stop",
]
