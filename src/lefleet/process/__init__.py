"""Child processes: one way to start them, one way to share work among them.

`launch` is the only place in LeFleet that starts a process. `Pool` hands work to workers as
JSON lines and takes answers as they come. `processes_marked` finds what is left of a child whose
parent is gone, `is_held` tells whether a lock's owner lives. Imports `errors`; `rollouts`,
`stages`, `loop` and `cli` use it. Data goes down a child's stdin and comes back on its stdout; its
stderr is a log file.
"""

from lefleet.process.launch import child_environment, launch, stop
from lefleet.process.locks import is_held
from lefleet.process.marks import processes_marked
from lefleet.process.pool import Pool

__all__ = ["Pool", "child_environment", "is_held", "launch", "processes_marked", "stop"]
