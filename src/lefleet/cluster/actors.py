"""Workers on any node of the cluster that this process is a job of.

Each is a Ray actor that starts the ordinary worker program beside itself and passes lines on. The
answers to a batch are taken when the batch is complete: a lost worker or node costs its unfinished
batch, which another worker gets, and no episode is counted twice.
"""

import logging
import os
import subprocess
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from lefleet.cluster.transfer import body_environment, settle_in
from lefleet.errors import ChildKilled, StageFailed
from lefleet.process import exit_words, launch, oom_kills
from lefleet.process.pool import DONE, last_words
from lefleet.records.executor import StageResources

_TRIES = 4
"""Workers that may be lost with one batch before it is the batch's fault."""
_TELL_EVERY_S = 5.0
_ALONE = {"max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}


class BatchAnswers(NamedTuple):
    """What a worker said to one piece of work, and how it exited if it did."""

    lines: list[bytes]
    code: int | None
    words: str


class WorkerRelay:
    """An actor: one worker process on its node, killed with it."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str], log: str) -> None:
        settle_in(environment)
        self._log = Path(log)
        self._oom_kills = oom_kills()
        with self._log.open("ab") as output:
            self._worker = launch(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output
            )

    def ready(self) -> None:
        """Returns when the actor has a place."""

    def work(self, line: bytes) -> BatchAnswers:
        """All answers to one piece of work."""
        stdin, stdout = cast(Any, self._worker.stdin), cast(Any, self._worker.stdout)
        lines: list[bytes] = []
        try:
            stdin.write(line + b"\n")
            stdin.flush()
        except BrokenPipeError:
            return self._exit(lines)
        for answer in stdout:
            if answer.rstrip(b"\n") == DONE:
                return BatchAnswers(lines, None, "")
            lines.append(answer.rstrip(b"\n"))
            # The journal gets whole batches; until then this shows that the stage does not hang.
            os.utime(self._log)
        return self._exit(lines)

    def _exit(self, lines: list[bytes]) -> BatchAnswers:
        code = self._worker.wait()
        return BatchAnswers(lines, code, exit_words(code, self._oom_kills))


class ActorPool:
    """As `process.Pool`, with workers on any node. Everything happens in the caller's thread."""

    def __init__(
        self,
        argv: Sequence[str],
        size: int,
        log: Path,
        each: StageResources,
        on_wait: Callable[[bool], None],
    ) -> None:
        self._size = size
        self._log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        self._ray = connected()
        options = {"num_cpus": each.cpus, "num_gpus": each.gpus, "resources": each.custom}
        self._actor = self._ray.remote(WorkerRelay).options(**options, **_ALONE)
        self._arguments = (tuple(argv), body_environment({}), str(log))
        self._starting: dict[Any, Any] = {}
        """Actors without a place yet, by the promise that tells of it."""
        self._idle: deque[Any] = deque()
        self._failed_starts = 0
        self._on_wait = on_wait
        self._has_placed = self._has_waited = False

    def close(self) -> None:
        """End the workers."""
        for actor in (*self._starting.values(), *self._idle):
            self._ray.kill(actor)
        self._starting.clear()
        self._idle.clear()

    def run(self, work: Iterable[bytes]) -> Iterator[bytes]:
        """Answers to all of `work`, batch by batch, in the order in which batches are complete."""
        pending = iter(work)
        waiting: deque[bytes] = deque()
        busy: dict[Any, tuple[Any, bytes]] = {}
        lost: Counter[bytes] = Counter()
        try:
            while True:
                while len(waiting) + len(busy) < self._size:
                    if (line := next(pending, None)) is None:
                        break
                    waiting.append(line)
                if not waiting and not busy:
                    return
                while len(self._idle) + len(self._starting) < len(waiting):
                    actor = self._actor.remote(*self._arguments)
                    self._starting[actor.ready.remote()] = actor
                while self._idle and waiting:
                    actor, line = self._idle.popleft(), waiting.popleft()
                    busy[actor.work.remote(line)] = actor, line
                for promise in self._settled([*busy, *self._starting]):
                    if promise in self._starting:
                        self._place(promise)
                        continue
                    actor, line = busy.pop(promise)
                    answers = self._answers(promise)
                    if answers is not None and answers.code is None:
                        self._idle.append(actor)
                        yield from answers.lines
                        continue
                    self._ray.kill(actor)
                    lost[line] += 1
                    self._require_hope(answers, lost[line])
                    waiting.appendleft(line)
        finally:
            for actor, _ in busy.values():
                self._ray.kill(actor)

    def _settled(self, promises: list[Any]) -> list[Any]:
        """Those that are kept or broken; waits for one."""
        settled, _ = self._ray.wait(promises, num_returns=1, timeout=_TELL_EVERY_S)
        if not settled and not self._has_placed:
            if not self._has_waited:
                self._has_waited = True
                self._note(f"{len(self._starting)} workers wait for resources on the cluster")
            self._on_wait(True)
        return list(settled)

    def _place(self, promise: Any) -> None:
        """An actor has its place, or was lost on the way."""
        actor = self._starting.pop(promise)
        try:
            self._ray.get(promise)
        except self._ray.exceptions.RayError as error:
            self._note(f"a worker could not start: {_first_line(error)}")
            self._failed_starts += 1
            if self._failed_starts > _TRIES * self._size:
                raise StageFailed(
                    f"No worker can start on the cluster: {_first_line(error)}.",
                    f"Its log is {self._log}.",
                ) from error
        else:
            self._idle.append(actor)
            if self._has_waited and not self._has_placed:
                self._on_wait(False)
            self._has_placed = True

    def _answers(self, promise: Any) -> BatchAnswers | None:
        """None where the worker's node or actor is lost."""
        try:
            return cast(BatchAnswers, self._ray.get(promise))
        except self._ray.exceptions.RayError as error:
            self._note(f"a worker is lost, another one gets its batch: {_first_line(error)}")
            return None

    def _require_hope(self, answers: BatchAnswers | None, tries: int) -> None:
        """Raise where another worker would not do better."""
        where = f"Its log is {self._log}."
        if answers is not None and answers.code is not None and answers.code >= 0:
            said = last_words(self._log, self._log_start)
            raise StageFailed(f"A worker {answers.words}: {said}.", where)
        if tries >= _TRIES:
            how = answers.words if answers is not None else "was lost with its node"
            raise ChildKilled(f"A worker {how}, the {tries}th one with the same batch.", where)

    def _note(self, text: str) -> None:
        with self._log.open("a") as log:
            log.write(f"--- {text}\n")


def connected() -> Any:
    """The package ray, connected to the cluster that this process is a job of."""
    import ray

    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    return ray


def capacity(each: StageResources) -> int:
    """How many workers fit on all nodes, when nothing else runs there; at least one."""
    has = connected().cluster_resources()
    wanted = {"CPU": each.cpus, "GPU": each.gpus, **each.custom}
    fits = [int(has.get(name, 0.0) / amount) for name, amount in wanted.items() if amount]
    return max(1, min(fits, default=1))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
