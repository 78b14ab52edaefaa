"""How good is a checkpoint: request, one record per episode, and the summary."""

from typing import Annotated, Literal

from msgspec import Meta

from lefleet.records.border import Strict
from lefleet.records.collect import NotNegative, Positive, Tasks
from lefleet.records.seeds import SeedBlock


class EvaluateRequest(Strict, frozen=True, kw_only=True, tag_field="kind", tag="evaluate"):
    """A fixed block of episodes."""

    checkpoint: str
    """Checkpoint to judge: train stage folder, pretrained_model folder, or hub id."""
    tasks: Tasks = ("easy3",)
    """Tasks or task sets (easy3, mt10, all)."""
    episodes_per_task: Positive = 20
    """Episodes for each task."""
    seed: NotNegative = int(SeedBlock.EVALUATE)
    """First seed; episode i of every task has seed + i, as in lerobot-eval."""
    videos_per_task: NotNegative = 1
    """Episodes of each task to film."""
    batch_size: Positive = 20
    """Episodes that step together in one policy batch."""
    episode_length: Annotated[int, Meta(ge=0, le=500)] = 0
    """Steps after which an episode has failed, at most MetaWorld's 500. 0: the task's horizon."""
    workers: NotNegative = 0
    """Processes. 0: one per core, no more than there are batches."""
    device: str = "cpu"
    """Torch device."""
    env: dict[str, str] = {}
    """Evaluate in another LeRobot environment with lerobot-eval: its --env flags by name, for
    instance type and task. Empty: LeFleet's MetaWorld."""


PolicyRole = Literal["candidate", "baseline"]


class EpisodeRecord(Strict, frozen=True, kw_only=True):
    """One line of `episodes.jsonl`."""

    policy: PolicyRole
    task: str
    seed: int
    success: bool
    progress: float
    length: int
    """Steps; 0 where lerobot-eval ran the episode, which does not say."""
    video: str = ""
    """Path relative to the stage folder, empty when not filmed."""
    video_problem: str = ""
    """Why it could not be filmed."""
    start: str = ""
    """Digest of the initial state, where it is known."""


class Rate(Strict, frozen=True, kw_only=True):
    """Successes of a fixed number of episodes with the exact 95 % interval."""

    successes: int
    episodes: int
    rate: float
    interval: tuple[Annotated[float, Meta(ge=0, le=1)], Annotated[float, Meta(ge=0, le=1)]]


class PolicyResult(Strict, frozen=True, kw_only=True):
    """One checkpoint's results."""

    checkpoint: str
    digest: str
    overall: Rate
    per_task: dict[str, Rate]
    mean_progress: float
    mean_length: float


class EvaluationRecord(
    Strict, frozen=True, kw_only=True, tag_field="kind", tag="evaluation_record"
):
    """A finished evaluation; the episodes are in `episodes_file` beside it."""

    result: PolicyResult
    tasks: tuple[str, ...]
    first_seed: int
    episodes_per_task: int
    episodes_file: str
    videos_note: str = ""
    """Why there are no videos, where some were asked for."""
