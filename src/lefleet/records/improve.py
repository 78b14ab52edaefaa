"""Data that a policy makes for itself, and the mix that it goes into."""

from typing import Annotated, Literal

from msgspec import Meta

from lefleet.records.border import Strict
from lefleet.records.collect import DatasetRecord, NotNegative, Positive, Tally, Tasks
from lefleet.records.seeds import SeedBlock


class ImproveRequest(Strict, frozen=True, kw_only=True, tag_field="kind", tag="improve"):
    """Roll a policy out, keep what teaches, and merge it into the demonstrations."""

    checkpoint: str
    """Checkpoint that acts: train stage folder, pretrained_model folder, or hub id."""
    demos: str
    """Data to add to: collect or improve stage folder, or a LeRobotDataset folder."""
    method: Literal["harvest", "correct"] = "correct"
    """harvest: keep the policy's own successes.
    correct: where the policy fails, the expert takes over; keep the expert's part."""
    tasks: Tasks = ("easy3",)
    """Tasks or task sets (easy3, mt10, all)."""
    episodes_per_task: Positive = 10
    """Episodes to keep for each task."""
    max_attempts_per_task: NotNegative = 0
    """Give up on a task after this many episodes. 0: five times episodes_per_task."""
    self_generated: NotNegative = 0
    """Episodes of `demos` that policies made, beside those that its record tells of."""
    mixing_ratio: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.5
    """At most this share of the mix's episodes is self-generated, added ones and earlier ones."""
    patience: Positive = 60
    """Steps without progress after which the expert takes over."""
    seed: NotNegative = int(SeedBlock.IMPROVE)
    """First seed; attempts count up from it."""
    workers: NotNegative = 0
    """Processes. 0: one per core."""
    device: str = "cpu"
    """Torch device."""


class MixRecord(Strict, frozen=True, kw_only=True, tag_field="kind", tag="mix_record"):
    """The mix, and how it came about."""

    dataset: DatasetRecord
    method: str
    checkpoint_digest: str
    tallies: dict[str, Tally]
    """Kept and attempted by task, before the cap."""
    added: dict[str, int]
    """Episodes that went into the mix, by task."""
    self_generated: int
    """Self-generated episodes in the mix, those of earlier mixes included."""
    note: str = ""
    """What a person should know, for instance that nothing could be kept."""
