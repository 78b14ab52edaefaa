"""Bodies as jobs of a Ray cluster, one for each attempt, behind the fence of the stage's folder.

The fence is written before the job is submitted, so whatever the cluster knows or has forgotten, at
most one body may write. A job that the cluster knows is attached to; after any other, the fence is
closed, and the folder's lock is seen to be free before the next job is submitted.
"""

import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import cast

from lefleet.cluster.fence import FENCE, Fence, close_fence, read_fence, write_fence
from lefleet.cluster.jobs import ClusterJob, JobRefused, Jobs
from lefleet.cluster.pools import pool_variables
from lefleet.cluster.transfer import body_environment
from lefleet.errors import ClusterUnreachable, StageFailed
from lefleet.executors.driver import GRACE_S, OUTDATED, driver_argv
from lefleet.executors.local import LocalExecutor
from lefleet.executors.seam import BodyState, EndedBody, LockedBody, StageBody
from lefleet.process import require_allowed
from lefleet.records.executor import Claimant, ExecutorPlan, StageResources
from lefleet.stages.folder import LOG, RECORD, is_locked
from lefleet.stages.progress import WAITING, ProgressWriter, Update, read_progress
from lefleet.stages.run import STAGE_MARK, prepare, stage_argv

_WAITING = WAITING.detail
_NO_ANSWER = Update.phase("the cluster does not answer")
FORGOTTEN = "was forgotten by the cluster, whose head has restarted"
_LOOK_EVERY_S = 1.0
_RELEASE_S = 180.0
"""How long the lock of an outdated body may stay held: its driver looks at the fence every few
seconds, and a lost node gives up its locks when the file system notices."""
_STOPPED_RELEASE_S = 30.0
"""The same where nothing else is to work in the folder."""
_STOP_S = GRACE_S + 20.0
_TELL_EVERY_S = 10.0
_STARTING_S = 5.0
"""How long Ray may take to start a job for which everything is free."""
_DEFAULTS: dict[str, StageResources] = {
    "train": StageResources(cpus=1.0),
    "worker": StageResources(cpus=1.0),
}


class RayExecutor:
    """Submits each body as a job that this user's cluster runs on one of its nodes. Before it
    changes a fence or a job, it asks whether this process may still do that."""

    def __init__(self, plan: ExecutorPlan, require_control: Callable[[], None]) -> None:
        self._plan = plan
        self._require_control = require_control
        self._jobs = Jobs(plan.address, plan.token_file)

    def find(self, folder: Path) -> StageBody | None:
        fence = read_fence(folder)
        if fence is None or not fence.submission:
            # One that was started by hand, or before the run was given a cluster.
            return LockedBody(folder) if is_locked(folder) else None
        if not self._is_alive(fence.submission):
            return None
        return JobBody(self._jobs, fence.submission, folder, starting_s=0.0)

    def clear(self, folder: Path) -> None:
        if not folder.exists():
            return
        fence = read_fence(folder)
        self._require_control()
        close_fence(folder)
        if fence is not None and fence.submission:
            self._stop([fence.submission])
        if (held := self._held({folder}, _RELEASE_S)) is not None:
            raise StageFailed(
                f"A process on some node still works in {held}.",
                "End it there, then resume the run.",
            )

    def start(self, folder: Path, stage: str, attempt: int) -> StageBody:
        prepare(folder)
        name, token = _submission(folder, attempt), token_hex(8)
        argv = stage_argv(folder)
        environment = body_environment({STAGE_MARK: str(folder)})
        environment |= pool_variables(self._plan, resources_of(self._plan, "worker"))
        # What the body is, and the program that will start it there.
        require_allowed(argv)
        require_allowed(driver_argv(folder, token))
        self._require_control()
        write_fence(folder, Fence(token=token, submission=name, environment=environment))
        try:
            self._jobs.submit(
                name, driver_argv(folder, token), resources_of(self._plan, stage), GRACE_S + 10.0
            )
        except JobRefused as error:
            return EndedBody(f"could not be submitted: {error}")
        return JobBody(self._jobs, name, folder, starting_s=_STARTING_S)

    def cancel(self, folders: set[Path]) -> None:
        unfinished = {folder for folder in folders if not (folder / RECORD).exists()}
        names = []
        self._require_control()
        for folder in unfinished:
            fence = read_fence(folder)
            if fence is None:
                # One that was started by hand, or before the run was given a cluster.
                LocalExecutor().cancel({folder})
            elif fence.submission:
                names.append(fence.submission)
                close_fence(folder)
        self._stop(names)
        if (held := self._held(unfinished, _STOPPED_RELEASE_S)) is not None:
            # It cannot commit any more, and the next attempt waits for its lock.
            sys.stderr.write(f"A process on some node still works in {held}.\n")

    def _stop(self, names: Sequence[str]) -> None:
        """Ask the cluster to end jobs, and see that those at work have. Where it does not answer,
        their drivers end when they see the fence closed; so does one that waits for resources,
        which Ray cannot stop, when it gets them."""
        deadline = time.monotonic() + _STOP_S
        with suppress(ClusterUnreachable):
            for name in names:
                self._jobs.stop(name)
            while any(map(self._is_at_work, names)) and time.monotonic() < deadline:
                self._wait()

    def _held(self, folders: set[Path], patience_s: float) -> Path | None:
        """A folder whose lock is held for as long as that; None once all are free."""
        deadline = time.monotonic() + patience_s
        while held := [folder for folder in folders if is_locked(folder)]:
            if time.monotonic() > deadline:
                return held[0]
            self._wait()
        return None

    def _wait(self) -> None:
        self._require_control()
        time.sleep(0.2)

    def _is_at_work(self, name: str) -> bool:
        job = self._jobs.find(name)
        return job is not None and not job.has_ended and not job.is_pending

    def _is_alive(self, name: str) -> bool:
        job = self._jobs.find(name)
        return job is not None and not job.has_ended


class JobBody:
    """A body that the cluster runs, or will: it waits for room once it is pending for longer than
    `starting_s`. Asked about once a second."""

    def __init__(self, jobs: Jobs, name: str, folder: Path, starting_s: float) -> None:
        self._jobs = jobs
        self._name = name
        self._folder = folder
        self._progress = ProgressWriter(folder)
        self._state = BodyState("running")
        self._waits_from = time.monotonic() + starting_s
        self._looked = self._told = -_LOOK_EVERY_S

    def look(self) -> BodyState:
        now = time.monotonic()
        if now - self._looked >= _LOOK_EVERY_S:
            self._looked = now
            try:
                self._state = self._state_of(self._jobs.find(self._name))
            except ClusterUnreachable as error:
                # A head that is restarted answers again; until then the body may be at work.
                self._state = BodyState("silent", words=str(error))
                self._show(_NO_ANSWER)
        return self._state

    def _state_of(self, job: ClusterJob | None) -> BodyState:
        if job is None:
            return BodyState("ended", words=FORGOTTEN)
        if job.is_pending:
            return self._pending()
        if not job.has_ended:
            said = read_progress(self._folder)
            # Its workers have found no room yet.
            is_waiting = said is not None and said.what == _WAITING
            return BodyState("waiting", words=_WAITING) if is_waiting else BodyState("running")
        if job.status != "SUCCEEDED":
            self._keep_log()
        return ended(job)

    def _pending(self) -> BodyState:
        if time.monotonic() < self._waits_from:
            return BodyState("running")
        self._show(WAITING)
        return BodyState("waiting", words=_WAITING)

    def _show(self, phase: Update) -> None:
        """Also a sign of life: a cluster that is full or away is not a stage that hangs."""
        if time.monotonic() - self._told >= _TELL_EVERY_S:
            self._told = time.monotonic()
            self._progress(phase)

    def _keep_log(self) -> None:
        """What the job printed, where the body never came to write to the stage's log."""
        log = self._folder / LOG
        if log.exists() and log.stat().st_mtime > (self._folder / FENCE).stat().st_mtime:
            return
        with suppress(ClusterUnreachable):
            said = self._jobs.log(self._name)
            with log.open("a") as file:
                file.writelines(f"{line}\n" for line in said.splitlines())


def ended(job: ClusterJob) -> BodyState:
    """How a job ended. A driver reports the signal that killed its body as shells do."""
    code, said = job.driver_exit_code, " ".join((job.message or "").split())[:300]
    if code is None or job.status == "STOPPED" or code == OUTDATED:
        return BodyState("ended", words=f"{job.status} on the cluster: {said}".rstrip(": "))
    if code == 0:
        return BodyState("ended", words="exited without a record")
    if code < 0 or code > 128:
        number = code if code < 0 else 128 - code
        return BodyState("ended", number, f"was killed by signal {-number} on the cluster")
    return BodyState("ended", code, f"exited with code {code} on the cluster: {said}")


def resources_of(plan: ExecutorPlan, claimant: str) -> StageResources:
    """What a stage, or a worker, reserves."""
    named = plan.resources.get(cast(Claimant, claimant))
    return named or _DEFAULTS.get(claimant, StageResources())


def _submission(folder: Path, attempt: int) -> str:
    """Id of a job: what it is, for a person, and a part that no other ledger or folder has."""
    place = "-".join(folder.parts[-3:])
    return f"lefleet-{re.sub(r'[^A-Za-z0-9_.-]', '_', place)}-{attempt}-{token_hex(6)}"
