"""What rendering cameras costs: steps of scripted demonstrations, by cameras, size and workers."""

import shutil
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Section, table
from benchmarks.workshop import Workshop, say
from lefleet.rollouts import Demonstrate, EpisodeBatch, PlannedEpisode, Simulators
from lefleet.sim.render import ImageSize

TASK = "push"
BATCH = 2
WORKERS = (1, 2)


class View(NamedTuple):
    """What is rendered at every step."""

    title: str
    cameras: tuple[str, ...]
    size: int


VIEWS = (
    View("none", (), 0),
    View("corner, 96 x 96", ("corner",), 96),
    View("corner and gripper, 96 x 96", ("corner", "gripper"), 96),
    View("corner and gripper, 224 x 224", ("corner", "gripper"), 224),
)


class Pace(NamedTuple):
    """Of one round."""

    steps: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.steps / self.seconds


def measure(workshop: Workshop) -> Section:
    episodes, rounds = (2, 1) if workshop.quick else (8, 3)
    paces = {
        (view, workers): _best(workshop, view, workers, episodes=episodes, rounds=rounds)
        for view in VIEWS
        for workers in WORKERS
    }
    blind = paces[VIEWS[0], 1].rate
    rows = []
    for view in VIEWS:
        one, two = (paces[view, workers].rate for workers in WORKERS)
        image_ms = (1 / one - 1 / blind) * 1000 / len(view.cameras) if view.cameras else 0.0
        rows.append(
            (
                view.title,
                f"{one:.0f}",
                f"{two:.0f}",
                f"{two / one:.2f}",
                f"{blind / one:.1f}",
                f"{image_ms:.1f}" if view.cameras else "–",
            )
        )
    header = (
        "cameras",
        "steps/s, 1 worker",
        "steps/s, 2 workers",
        "2 workers, times 1",
        "time of a step, times that without",
        "ms per image",
    )
    return Section(
        "steps of demonstrations with rendered cameras",
        (table(header, rows),),
        (
            f"{episodes} demonstrations of {TASK}, every step observed and kept; the fastest of "
            f"{rounds} rounds, on workers that have begun before. EGL renders in software; a GPU "
            "was not measured.",
            "Two workers gain nothing on cores that others use: compare them with the row without "
            "cameras.",
            "Beside rendering, the time per image includes compressing and writing it for the "
            "dataset; encoding the dataset's videos comes after that and is not included.",
            "Evaluations render less: only the steps at which the policy looks, which for ACT is "
            "one in n_action_steps.",
        ),
    )


def _best(workshop: Workshop, view: View, workers: int, *, episodes: int, rounds: int) -> Pace:
    log = workshop.folder / "cameras.log"
    with Simulators(workers=workers, device="cpu", log=log) as simulators:
        # Every worker makes its worlds and its renderer.
        _run(workshop, simulators, view, range(1000, 1000 + BATCH * workers))
        paces = [_run(workshop, simulators, view, range(episodes)) for _ in range(rounds)]
    best = max(paces, key=lambda pace: pace.rate)
    say(f"{view.title} with {workers} workers: {best.rate:.0f} steps/s")
    return best


def _run(workshop: Workshop, simulators: Simulators, view: View, seeds: range) -> Pace:
    frames = workshop.folder / "frames"
    frames.mkdir(exist_ok=True)
    cameras = dict.fromkeys(view.cameras, ImageSize(view.size, view.size))
    batches = [
        EpisodeBatch(
            size=BATCH,
            episodes=_planned(frames, range(first, first + BATCH)),
            behaviour=Demonstrate(),
            cameras=cameras,
        )
        for first in seeds[::BATCH]
    ]
    started = time.perf_counter()
    steps = sum(finished.length for finished in simulators.run(batches))
    seconds = time.perf_counter() - started
    shutil.rmtree(frames)
    return Pace(steps, seconds)


def _planned(frames: Path, seeds: range) -> tuple[PlannedEpisode, ...]:
    return tuple(
        PlannedEpisode(row=row, task=TASK, seed=seed, frames=str(frames / f"{seed}.npz"))
        for row, seed in enumerate(seeds)
    )
