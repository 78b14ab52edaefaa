"""Who carries out the stages of a run: processes of this machine, or jobs of a Ray cluster.

    seam      what the loop asks of an executor: find a stage's body, start one, end it, look at it
    local     processes of this machine
    ray_jobs  jobs of a Ray cluster, one for each attempt
    driver    the program of such a job, on whatever node: starts the body, watches the fence
    checks    what is tried out on a cluster before a run begins

A stage's folder and the program `lefleet stage exec FOLDER` are the same everywhere, and so are
requests, records and digests; only who starts that program differs. `for_plan` makes the executor
that a config names. Code elsewhere knows of it whether stages work on this machine, nothing more.

Imports `errors`, `records`, `process`, `devices`, `cluster` and `stages`; `loop` and `cli` use it.
Requests and records are in the stage's folder. To a cluster go the command line and the resources,
and the body finds its variables in the folder's fence.
"""

from collections.abc import Callable

from lefleet.executors.local import LocalExecutor
from lefleet.executors.seam import BodyState, Executor, StageBody
from lefleet.records.executor import ExecutorPlan

__all__ = ["BodyState", "Executor", "LocalExecutor", "StageBody", "for_plan"]


def for_plan(plan: ExecutorPlan, require_control: Callable[[], None] = lambda: None) -> Executor:
    """The executor that a config names. `require_control` raises where this process may not steer
    the run any more: a cluster asks before it changes anything, and while it waits."""
    if plan.is_here:
        return LocalExecutor()
    from lefleet.executors.ray_jobs import RayExecutor

    return RayExecutor(plan, require_control)
