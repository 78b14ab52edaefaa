"""What a trial is asked, and what its processes tell each other: one JSON object on each line."""

from typing import Annotated, NamedTuple

from msgspec import Meta

from lefleet.records import DrivenEpisode
from lefleet.records.border import Strict
from lefleet.records.fields import Positive
from lefleet.records.profile import Milliseconds


class TrialOptions(Strict, frozen=True, kw_only=True):
    """Trial settings."""

    task: tuple[str, ...] = ()
    """Tasks or task sets (easy3, mt10, all); robots take them in turn. Default: those that the
    checkpoint was trained for."""
    robots: Annotated[int, Meta(ge=1, le=64)] = 2
    """Simulated robots. Each needs about a third of a core."""
    episodes: Positive = 2
    """Episodes of each robot."""
    latency: Milliseconds = 0.0
    """Milliseconds added to each round trip between robots and server."""
    jitter: Milliseconds = 0.0
    """Up to so many milliseconds more for each round trip, evenly distributed."""
    seconds: Annotated[float, Meta(ge=0)] = 0.0
    """Stop after so many seconds of driving, even if episodes are left. 0: no limit."""


class TrialRequest(TrialOptions, frozen=True, kw_only=True):
    """What the host is asked."""

    checkpoint: str
    """Folder or hub id."""
    out: str


class TrialWork(Strict, frozen=True, kw_only=True):
    """What a robot's process is asked."""

    robot: str
    task: str
    first_seed: int
    episodes: int
    checkpoint: str
    """Folder with the policy's settings; its weights are on the server."""
    port: int
    delay_ms: float


class SentCommand(NamedTuple):
    """A command that reached the robot, and the simulation's step that it was the first for."""

    step: int
    values: tuple[float, ...]
    """In the order of ACTION_NAMES."""


class FilmWork(Strict, frozen=True, kw_only=True):
    """What the filming program is asked."""

    path: str
    task: str
    seed: int
    steps: int
    commands: tuple[SentCommand, ...]


class TrialPhase(Strict, frozen=True, kw_only=True, tag_field="kind", tag="phase"):
    """What the host does now, before robots move."""

    text: str


class Ready(Strict, frozen=True, kw_only=True, tag_field="kind", tag="ready"):
    """The server serves, and the robots are about to connect."""

    digest: str
    chunk_size: int
    n_action_steps: int
    tasks: dict[str, str]
    """Of each robot."""


class RobotNews(Strict, frozen=True, kw_only=True, tag_field="kind", tag="robot"):
    """A robot at work, a few times a second; counts are since its program started."""

    robot: str
    state: str
    reason: str
    episode: int
    """1 for the first."""
    progress: float
    buffer_ms: float
    action_age_ms: float
    round_trip_p95_ms: float
    chunks: int
    fallbacks: int


class EpisodeOver(Strict, frozen=True, kw_only=True, tag_field="kind", tag="episode"):
    """An episode has ended, or was cut off because the time was up."""

    robot: str
    number: int
    """1 for the first."""
    driven: DrivenEpisode
    states: dict[str, int]
    """Ticks in each state."""
    is_cut: bool
    commands: tuple[SentCommand, ...] = ()
    """For the film; the host does not pass them on."""


class Filmed(Strict, frozen=True, kw_only=True, tag_field="kind", tag="film"):
    """A film is there, or why it is not."""

    path: str
    problem: str = ""


class TrialFailure(Strict, frozen=True, kw_only=True, tag_field="kind", tag="failure"):
    """The last message of a process that cannot go on."""

    problem: str
    remedy: str
    exit_code: int


TrialMessage = TrialPhase | Ready | RobotNews | EpisodeOver | Filmed | TrialFailure
