"""The program that films episodes when they are over: it repeats their commands, step by step.

Rendering takes longer than a tick of the control loop, so a robot cannot film itself. A task, a
seed and the command of each step determine an episode, bit for bit. The program has the lowest
priority: on few cores, robots that still drive come first.
"""

import os
import signal
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import msgspec

from lefleet.robots.command import parse_command
from lefleet.robots.scene import Scene, SimExtras
from lefleet.rollouts.film import Film
from lefleet.sim.encode import ACTION_NAMES, FPS
from lefleet.sim.render import GL_REMEDY, Renderer, graphics_problem
from lefleet.sim.world import MAX_STEPS
from lefleet.trial.members import take_stdout
from lefleet.trial.messages import Filmed, FilmWork

_LOWEST_PRIORITY = 19


def film(work: FilmWork, scene: Scene) -> Filmed:
    """Write the film; it has its name only when it is complete."""
    path = Path(work.path)
    unfinished = path.with_suffix(f".partial{path.suffix}")
    scene.start(work.seed)
    recording = Film(partial(Renderer, scene.world.sim), FPS)
    for _ in repeat(work, scene):
        recording.shoot()
    problem = recording.write(unfinished)
    if not problem:
        unfinished.replace(path)
    return Filmed(path=work.path, problem=problem)


def repeat(work: FilmWork, scene: Scene) -> Iterator[SimExtras]:
    """Make the steps of an episode again, each with the command that was in force."""
    ends = [*(sent.step for sent in work.commands[1:]), work.steps]
    for sent, end in zip(work.commands, ends, strict=True):
        command = parse_command(dict(zip(ACTION_NAMES, sent.values, strict=True)))
        for _ in range(sent.step, end):
            scene.step(command)
            yield scene.extras


@cache
def scene_of(task: str) -> Scene:
    """Its episodes are numbered by their seeds."""
    return Scene(task, seed=0, horizon=MAX_STEPS)


def main() -> None:
    # Ctrl-C in a terminal reaches all its processes; the command decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_LOWEST_PRIORITY)
    say = take_stdout()
    problem = f"{found} {GL_REMEDY}" if (found := graphics_problem()) else ""
    for line in sys.stdin.buffer:
        work = msgspec.json.decode(line, type=FilmWork)
        say(Filmed(path=work.path, problem=problem) if problem else film(work, scene_of(work.task)))


if __name__ == "__main__":
    main()
