"""What latency does to a checkpoint: the request, its episodes, and the envelope that is kept."""

from typing import Annotated, Literal

from msgspec import Meta

from lefleet.records.border import Strict
from lefleet.records.evaluate import Rate
from lefleet.records.fields import Effect, NotNegative, Positive, SeedBlock

ENVELOPE_FILE = "envelope.json"
"""Beside the weights. It says how they did, not what they do: digests leave it out."""

Milliseconds = Annotated[float, Meta(ge=0, le=2000)]
ProfileMerge = Literal["aligned", "append", "rtc"]


class ProfileOptions(Strict, frozen=True, kw_only=True):
    """Profile settings."""

    tasks: tuple[str, ...] = ()
    """Tasks or task sets (easy3, mt10, all). Default: those that the checkpoint was trained for."""
    episodes: Positive = 60
    """Episodes at each delay, over all tasks."""
    delays: Annotated[tuple[Milliseconds, ...], Meta(min_length=1)] = (0.0, 50.0, 200.0, 500.0)
    """Milliseconds added to each round trip. 0 is always measured too: the others are compared with
    it."""
    jitter: Milliseconds = 0.0
    """Up to so many milliseconds more for each round trip, evenly distributed; not at 0."""
    merge: ProfileMerge = "aligned"
    """How a new chunk meets what is left of the last one, as in --inference.merge of a robot."""
    margin: Effect = 0.15
    """Loss of success that still counts as none."""
    robots: Positive = 2
    """Simulated robots at a time. Each needs about a fifth of a core; too many are reported."""
    seed: NotNegative = int(SeedBlock.EVALUATE)
    """First seed; the same seeds at every delay."""
    episode_length: Annotated[int, Meta(ge=0, le=500)] = 0
    """Steps after which an episode has failed, at most MetaWorld's 500. 0: the task's horizon."""
    device: str = "cpu"
    """Of the policy server: auto (the GPU, and the CPU where there is none), cpu, cuda, cuda:N or
    mps."""


class ProfileRequest(ProfileOptions, frozen=True, kw_only=True, tag_field="kind", tag="profile"):
    """Success of a checkpoint on simulated robots behind a network with added latency."""

    checkpoint: str
    """Checkpoint to measure: train stage folder, pretrained_model folder, or hub id."""


class DrivenEpisode(Strict, frozen=True, kw_only=True):
    """One line of a profile's `episodes.jsonl`: an episode in wall-clock time."""

    delay_ms: float
    task: str
    seed: int
    success: bool
    progress: float
    length: int
    """Steps of the simulation."""
    ticks: int
    """Of the control loop, from the first command on."""
    fallbacks: int
    """Ticks without a fresh action."""
    late: int
    """Ticks that began more than a whole tick too late: the machine was too busy."""
    action_age_ms: float
    """From an observation to the execution of an action that it led to, the mean over ticks."""
    round_trips_ms: tuple[float, ...] = ()


class DelayCell(Strict, frozen=True, kw_only=True):
    """All episodes at one delay."""

    delay_ms: float
    success: Rate
    per_task: dict[str, Rate]
    won: int
    """Episodes that succeeded here and failed at 0 ms with the same seed."""
    lost: int
    """Episodes that failed here and succeeded at 0 ms."""
    least_difference: float
    """Lower 95 % limit of success here less success at 0 ms; 0 for the cell at 0 ms itself."""
    fallback_share: float
    """Of all ticks."""
    late_share: float
    round_trip_p95_ms: float
    action_age_ms: float


class EnvelopeRecord(Strict, frozen=True, kw_only=True, tag_field="kind", tag="envelope_record"):
    """A finished profile; `envelope.json` beside the weights holds the same."""

    digest: str
    """Of the checkpoint, as its server says it."""
    envelope_ms: float
    """p95 round trip of the last cell, in the order of delays, up to which all were shown to lose
    at most `margin`. 0: not even the first one could be judged, and `note` says why."""
    delay_ms: float
    """Delay of that cell."""
    cells: tuple[DelayCell, ...]
    """In the order of delays, 0 first."""
    margin: float
    tasks: tuple[str, ...]
    first_seed: int
    jitter_ms: float
    merge: ProfileMerge
    robots: int
    fps: float
    chunk_size: int
    execute_steps: int
    """Steps of a chunk that were executed at most."""
    made_at: str
    """UTC, as in ISO 8601."""
    episodes_file: str
    note: str = ""
    """Why there is no envelope."""
