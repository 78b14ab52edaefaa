"""Episodes per minute: lerobot-eval against lefleet eval, on the same episodes."""

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from benchmarks.evaluators import Job, Timing, ours, stock
from benchmarks.report import Section, table
from benchmarks.workshop import EASY3, Workshop, python
from lefleet import ExpertDemos, TrainRequest

TARGET = 2.0


class Contender(NamedTuple):
    """A row of the table. `rivals` are the rows that do the same work with LeRobot."""

    title: str
    run: Callable[[Job], Timing]
    rounds: int
    rivals: tuple[str, ...] = ()


ASYNC = "lerobot-eval as it is (async environments), 10 films per task"
SYNC = "lerobot-eval, sync environments, 10 films per task"
OURS = "lefleet eval, 10 films per task"
ASYNC_UNFILMED = "lerobot-eval, async environments, no films (patched)"
SYNC_UNFILMED = "lerobot-eval, sync environments, no films (patched)"
OURS_UNFILMED = "lefleet eval, no films"

CONTENDERS = (
    Contender(ASYNC, stock(films=True, parallel=True), 2),
    Contender(SYNC, stock(films=True, parallel=False), 2),
    Contender(OURS, ours(10), 2, (ASYNC, SYNC)),
    Contender("lefleet eval as it is, 1 film per task", ours(1), 5, (ASYNC,)),
    Contender(ASYNC_UNFILMED, stock(films=False, parallel=True), 5),
    Contender(SYNC_UNFILMED, stock(films=False, parallel=False), 5),
    Contender(OURS_UNFILMED, ours(0), 5, (ASYNC_UNFILMED, SYNC_UNFILMED)),
)


def measure(workshop: Workshop) -> Section:
    quick = workshop.quick
    demos, _ = workshop.stage(ExpertDemos(tasks=EASY3, episodes_per_task=2 if quick else 8))
    training = TrainRequest(dataset=str(demos), steps=20 if quick else 1000, log_every=10)
    _, checkpoint = workshop.stage(training)
    job = Job(workshop, checkpoint.path, 2 if quick else 20)
    if not quick:
        imports = "import lerobot.scripts.lerobot_eval, lefleet.rollouts.policy, lefleet.sim.plugin"
        workshop.command(python("-c", imports), "warm_up")
    contenders = CONTENDERS[-2:] if quick else CONTENDERS
    timings: dict[str, list[Timing]] = {contender.title: [] for contender in contenders}
    for number in range(1 if quick else 5):
        for contender in contenders:
            if number < contender.rounds:
                timings[contender.title].append(contender.run(job))
    count = job.episodes * len(EASY3)
    return Section(
        f"lerobot-eval against lefleet eval, {count} episodes of easy3",
        tuple(_table(heading, field, timings, count) for heading, field in _MEASURES.items()),
        (_agreement(timings), *_verdicts(timings), _HOW),
    )


_MEASURES = {"whole command": "command_s", "without start-up": "simulation_s"}

_HOW = (
    "Speeds and ratios are of the medians of the rounds. "
    "Start-up is importing LeRobot, loading the policy and building environments; LeRobot's time "
    "without it is its own eval_s. lefleet films every second frame, LeRobot every one."
)


def _table(heading: str, field: str, timings: dict[str, list[Timing]], count: int) -> str:
    rows = []
    for contender in CONTENDERS:
        if contender.title not in timings:
            continue
        seconds = [getattr(one, field) for one in timings[contender.title]]
        rivals = [title for title in contender.rivals if title in timings]
        rows.append(
            (
                contender.title,
                " ".join(f"{one:.1f}" for one in seconds),
                f"{60 * count / median(seconds):.0f}",
                "; ".join(
                    f"{_ratio(timings, field, contender.title, rival):.1f} times {rival}"
                    for rival in rivals
                )
                or "–",
            )
        )
    return table((heading, "seconds of every round", "episodes per minute", "speed"), rows)


def _ratio(timings: dict[str, list[Timing]], field: str, mine: str, rival: str) -> float:
    """How many times as fast as `rival`, by the medians of the rounds."""
    took = {title: median(getattr(one, field) for one in timings[title]) for title in (mine, rival)}
    return float(took[rival] / took[mine])


def _agreement(timings: dict[str, list[Timing]]) -> str:
    rounds = [one.successes for runs in timings.values() for one in runs]
    different = sum(len(set(rounds[0].items()) - set(other.items())) for other in rounds)
    if different:
        return f"{different} episodes end differently than in the first evaluation."
    return (
        f"In all {len(rounds)} evaluations the success of each of the {len(rounds[0])} episodes "
        "is the same."
    )


def _verdicts(timings: dict[str, list[Timing]]) -> list[str]:
    """Against the fastest way to have LeRobot do the same work."""
    lines = []
    for contender in CONTENDERS:
        if contender.title not in (OURS, OURS_UNFILMED) or contender.title not in timings:
            continue
        rivals = [title for title in contender.rivals if title in timings]
        speeds = {
            heading: min(_ratio(timings, field, contender.title, rival) for rival in rivals)
            for heading, field in _MEASURES.items()
        }
        verdict = "met" if min(speeds.values()) >= TARGET else "missed"
        listed = " and ".join(f"{speed:.1f} ({heading})" for heading, speed in speeds.items())
        lines.append(
            f"{contender.title}: {listed} times as fast as the fastest LeRobot at the same work, "
            f"target of {TARGET:.0f} {verdict}."
        )
    return lines
