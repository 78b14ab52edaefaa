"""What has happened in a trial so far, folded from its messages, and what it comes to."""

from collections import Counter
from statistics import fmean

import numpy as np

from lefleet.records.border import Strict
from lefleet.sim.encode import FPS
from lefleet.trial.messages import (
    EpisodeOver,
    Filmed,
    Ready,
    RobotNews,
    TrialMessage,
    TrialPhase,
    TrialRequest,
)


class RobotSummary(Strict, frozen=True, kw_only=True):
    """What one robot did; ticks, ages and round trips are those of all its episodes."""

    robot: str
    task: str
    episodes: int
    """Those that ended; one that was cut off is not among them."""
    successes: int
    states: dict[str, float]
    """Share of the ticks in each state, in falling order."""
    ticks: int
    fallbacks: int
    """Ticks without a fresh action."""
    late: int
    """Ticks that began more than a whole tick too late: the machine was too busy."""
    action_age_ms: float
    """Of executed actions, the mean."""
    round_trip_p95_ms: float


class TrialSummary(Strict, frozen=True, kw_only=True):
    """What a trial came to: `--json`, and `summary.json` in its folder."""

    checkpoint: str
    digest: str
    latency_ms: float
    jitter_ms: float
    chunk_ms: float
    """How long the executed part of a chunk lasts."""
    is_interrupted: bool
    """Whether a signal ended it before all episodes had ended."""
    episodes: int
    successes: int
    cut: int
    """Episodes that were cut off because the time was up."""
    robots: tuple[RobotSummary, ...]
    out: str
    films: tuple[str, ...]
    films_note: str
    """Why films are missing."""


class RobotSoFar:
    """One robot: its newest news, and its episodes."""

    def __init__(self, robot: str, task: str) -> None:
        self.robot = robot
        self.task = task
        self.news: RobotNews | None = None
        self.episodes: list[EpisodeOver] = []

    @property
    def ended(self) -> list[EpisodeOver]:
        return [one for one in self.episodes if not one.is_cut]

    @property
    def successes(self) -> int:
        return sum(one.driven.success for one in self.episodes)

    def summary(self) -> RobotSummary:
        driven = [one.driven for one in self.episodes]
        states: Counter[str] = Counter()
        for one in self.episodes:
            states.update(one.states)
        ticks = sum(one.ticks for one in driven)
        round_trips = [trip for one in driven for trip in one.round_trips_ms]
        return RobotSummary(
            robot=self.robot,
            task=self.task,
            episodes=len(self.ended),
            successes=self.successes,
            states={name: count / max(1, ticks) for name, count in states.most_common()},
            ticks=ticks,
            fallbacks=sum(one.fallbacks for one in driven),
            late=sum(one.late for one in driven),
            action_age_ms=round(fmean([one.action_age_ms for one in driven] or [0.0]), 1),
            round_trip_p95_ms=round(float(np.quantile(round_trips or [0.0], 0.95)), 1),
        )


class TrialStatus:
    """Everything so far; `take` is the only place that changes it."""

    def __init__(self, request: TrialRequest, name: str) -> None:
        self.request = request
        self.name = name
        """What the user called the checkpoint."""
        self.phase = "starting"
        self.served: Ready | None = None
        self.robots: dict[str, RobotSoFar] = {}
        self.films: list[Filmed] = []

    def take(self, message: TrialMessage) -> None:
        match message:
            case TrialPhase():
                self.phase = message.text
            case Ready():
                self.served = message
                self.robots = {name: RobotSoFar(name, task) for name, task in message.tasks.items()}
            case RobotNews():
                self.robots[message.robot].news = message
            case EpisodeOver():
                self.robots[message.robot].episodes.append(message)
            case Filmed():
                self.films.append(message)

    @property
    def episodes(self) -> int:
        """Those that have ended or were cut off."""
        return sum(len(one.episodes) for one in self.robots.values())

    @property
    def is_driven(self) -> bool:
        """Whether all episodes have ended, so that only films are missing."""
        return bool(self.robots) and all(
            len(one.ended) == self.request.episodes for one in self.robots.values()
        )

    @property
    def chunks(self) -> int:
        """That the robots have executed."""
        return sum(one.news.chunks for one in self.robots.values() if one.news)

    def summary(self, *, is_interrupted: bool) -> TrialSummary:
        robots = tuple(one.summary() for one in self.robots.values())
        return TrialSummary(
            checkpoint=self.name,
            digest=self.served.digest if self.served else "",
            latency_ms=self.request.latency,
            jitter_ms=self.request.jitter,
            chunk_ms=self.served.n_action_steps / FPS * 1000 if self.served else 0.0,
            is_interrupted=is_interrupted,
            episodes=sum(one.episodes for one in robots),
            successes=sum(one.successes for one in robots),
            cut=self.episodes - sum(one.episodes for one in robots),
            robots=robots,
            out=self.request.out,
            films=tuple(one.path for one in self.films if not one.problem),
            films_note=next((one.problem for one in self.films if one.problem), ""),
        )
