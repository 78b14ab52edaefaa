"""The program that holds a trial together: it loads LeRobot once, forks all others, and listens.

It reads its request from stdin, and tells the command what happens until it exits. SIGTERM ends it
wherever it is: robots disconnect, then the server drains.
"""

import gc
import math
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import IO, NoReturn

import msgspec

from lefleet.errors import BadInput, LeFleetError, StageFailed
from lefleet.process import allow_forks, exit_words, oom_kills
from lefleet.records import SeedBlock
from lefleet.stages.folder import LOG
from lefleet.stages.references import CheckpointReference, find_checkpoint
from lefleet.testbed.relay import Relay
from lefleet.testbed.server import PolicyServer, ServedCheckpoint
from lefleet.trial.members import Member, Say, listen, stop_all, take_stdout
from lefleet.trial.messages import (
    EpisodeOver,
    Filmed,
    FilmWork,
    Ready,
    TrialFailure,
    TrialMessage,
    TrialPhase,
    TrialRequest,
    TrialWork,
)

_ROBOT, _FILM = "lefleet.trial.robot", "lefleet.trial.film"
_PROGRAMS = (_ROBOT, _FILM, "lefleet.cli.serve", "lefleet.policy.load", "metaworld.env_dict")
"""What the forks import."""
_LOOK_S = 0.5


def main() -> int:
    # Ctrl-C in a terminal reaches all its processes; the command decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _exit)
    say = take_stdout()
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=TrialRequest)
    try:
        host(request, say)
    except LeFleetError as error:
        say(TrialFailure(problem=error.problem, remedy=error.remedy, exit_code=error.exit_code))
        return error.exit_code
    finally:
        # All is stopped already, and what Python does at its end shall not be interrupted.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return 0


def _exit(*_: object) -> NoReturn:
    sys.exit(0)


def host(request: TrialRequest, say: Say) -> None:
    """What can be refused without the policy is refused before a process starts."""
    say(TrialPhase(text="loading LeRobot"))
    from lefleet.testbed.fit import require_fit, tasks_of

    checkpoint = find_checkpoint(request.checkpoint, "checkpoint")
    require_fit(checkpoint.path)
    tasks = tasks_of(checkpoint.path, request.task, "task")
    out = Path(request.out)
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOG).open("ab") as log:
        os.dup2(log.fileno(), 2)
        for name in _PROGRAMS:
            import_module(name)
        # Forks then leave this memory shared.
        gc.freeze()
        allow_forks()
        _run(request, checkpoint, tasks, log, say)


def _run(
    request: TrialRequest,
    checkpoint: CheckpointReference,
    tasks: tuple[str, ...],
    log: IO[bytes],
    say: Say,
) -> None:
    """All is forked before the relay starts a thread: a process with threads cannot be forked."""
    out = Path(request.out)
    say(TrialPhase(text="starting the policy server"))
    films = Member("the filming program", _FILM, log)
    robots = [Member(_name(number), _ROBOT, log) for number in range(request.robots)]
    with ExitStack() as stack:
        server = stack.enter_context(
            PolicyServer(checkpoint.path, device="cpu", robots=request.robots, folder=out)
        )
        port = server.port
        if request.latency or request.jitter:
            delay_s, jitter_s = request.latency / 1000, request.jitter / 1000
            port = stack.enter_context(Relay(port, delay_s=delay_s, jitter_s=jitter_s)).port
        stack.callback(stop_all, [*robots, films])
        served = server.wait_until_ready()
        _require_room(request, served)
        work = _share_out(request, checkpoint.path, tasks, port)
        say(
            Ready(
                digest=served.digest,
                chunk_size=served.chunk_size,
                n_action_steps=served.n_action_steps,
                tasks={one.robot: one.task for one in work},
            )
        )
        for robot, one in zip(robots, work, strict=True):
            robot.tell(one)
        TrialRun(request, robots, films, server, say).run()


def _require_room(request: TrialRequest, served: ServedCheckpoint) -> None:
    """What only the loaded policy can tell."""
    if served.serving_mode == "exclusive" and request.robots > 1:
        raise BadInput("robots: this policy serves one robot at a time.", "Use --robots 1.")


def _share_out(
    request: TrialRequest, checkpoint: str, tasks: tuple[str, ...], port: int
) -> list[TrialWork]:
    """Robots take the tasks in turn, and no two of them the same seeds."""
    return [
        TrialWork(
            robot=_name(number),
            task=tasks[number % len(tasks)],
            first_seed=SeedBlock.EVALUATE + number * request.episodes,
            episodes=request.episodes,
            checkpoint=checkpoint,
            port=port,
            delay_ms=request.latency + request.jitter,
        )
        for number in range(request.robots)
    ]


def _name(number: int) -> str:
    return f"robot-{number + 1}"


class TrialRun:
    """Listens until all robots have ended and all films are written."""

    def __init__(
        self,
        request: TrialRequest,
        robots: Sequence[Member],
        films: Member,
        server: PolicyServer,
        say: Say,
    ) -> None:
        self._request = request
        self._robots = robots
        self._films = films
        self._server = server
        self._say = say
        self._waiting: deque[FilmWork] = deque()
        self._is_filming = False
        self._until_s = math.inf
        self._is_time_up = False
        self._oom_kills = oom_kills()

    def run(self) -> None:
        while not all(one.is_silent for one in self._robots):
            self._server.require_running()
            self._listen()
            if time.monotonic() >= self._until_s and not self._is_time_up:
                self._is_time_up = True
                for robot in self._robots:
                    robot.process.terminate()
        while self._is_filming:
            self._listen()

    def _listen(self) -> None:
        for _, line in listen([*self._robots, self._films], _LOOK_S):
            self._take(msgspec.json.decode(line, type=TrialMessage))
        for member in (*self._robots, self._films):
            is_meant = self._is_time_up and member in self._robots
            if member.is_silent and (code := member.process.wait()) and not is_meant:
                words, where = exit_words(code, self._oom_kills), f"See {self._request.out}/{LOG}."
                raise StageFailed(f"{member.name} {words}.", where)

    def _take(self, message: TrialMessage) -> None:
        match message:
            case EpisodeOver():
                self._say(msgspec.structs.replace(message, commands=()))
                if message.driven.length:
                    self._waiting.append(self._film_of(message))
            case Filmed():
                self._is_filming = False
                self._say(message)
            case TrialFailure():
                raise StageFailed(message.problem, f"See {self._request.out}/{LOG}.")
            case _:
                if self._request.seconds and self._until_s == math.inf:
                    self._until_s = time.monotonic() + self._request.seconds
                self._say(message)
        if self._waiting and not self._is_filming:
            self._is_filming = True
            self._films.tell(self._waiting.popleft())

    def _film_of(self, episode: EpisodeOver) -> FilmWork:
        driven = episode.driven
        name = f"{episode.robot}_{episode.number}_{driven.task}.mp4"
        return FilmWork(
            path=str(Path(self._request.out) / name),
            task=driven.task,
            seed=driven.seed,
            steps=driven.length,
            commands=episode.commands,
        )


if __name__ == "__main__":
    sys.exit(main())
