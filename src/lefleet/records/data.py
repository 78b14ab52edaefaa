"""Where demonstrations come from, the dataset, and its mix with data that policies made."""

from typing import Literal

from lefleet.records.border import Strict
from lefleet.records.fields import (
    DEFAULT_TASKS,
    ImageSide,
    MixingRatio,
    NotNegative,
    Positive,
    SeedBlock,
    Share,
    Tasks,
)


class ExpertDemos(Strict, frozen=True, kw_only=True, tag_field="kind", tag="expert"):
    """Scripted demonstrations in simulation."""

    tasks: Tasks = DEFAULT_TASKS
    """Tasks or task sets (easy3, mt10, all). With env: names of its tasks, by default all."""
    episodes_per_task: Positive = 25
    """Successful demonstrations to keep for each task."""
    episodes: dict[str, NotNegative] = {}
    """Demonstrations to keep for tasks that differ from episodes_per_task. On the command line:
    --episodes TASK NUMBER TASK NUMBER."""
    noise: Share = 0.0
    """Gaussian noise (standard deviation) added to the executed action; the recorded action stays
    the expert's."""
    cameras: tuple[str, ...] = ()
    """Cameras of LeFleet's MetaWorld to record beside the state: corner, gripper, behind, top."""
    image_size: ImageSide = 96
    """Height and width of their images, in pixels."""
    seed: NotNegative = int(SeedBlock.COLLECT)
    """First seed; attempts count up from it."""
    add_to: tuple[str, ...] = ()
    """Datasets to prepend: stage folders or LeRobotDataset folders. The record is then of
    all of them together; the new episodes alone are in `dataset`."""
    add_to_digests: tuple[str, ...] = ()
    """Digests that the first of these datasets must have. Empty: not checked."""
    workers: NotNegative = 0
    """Processes. 0: one per core."""
    env: dict[str, str] = {}
    """Demonstrate in a LeRobot environment, with the expert that its package registers: its flags
    by name. Empty: LeFleet's MetaWorld."""


class ExistingDataset(Strict, frozen=True, kw_only=True, tag_field="kind", tag="dataset"):
    """Episodes of a LeRobotDataset, from the hub or a local folder."""

    repo_id: str = ""
    """Dataset on the hub, as user/name. May be left empty with a root."""
    root: str = ""
    """Local folder of the dataset. Empty: the hub's cache."""
    revision: str = ""
    """Branch, tag or commit on the hub."""
    tasks: Tasks
    """Tasks that will be evaluated: only their episodes are taken, and each must have some.
    The dataset's own task texts; for data of LeFleet's simulation also MetaWorld names and sets."""
    episodes_per_task: NotNegative = 0
    """Episodes to take for each task, the same number for all. 0: as many as the rarest has."""
    at_least: NotNegative = 0
    """Episodes that each task must have: more than are taken where later requests will take more.
    0: as many as are taken."""
    seed: NotNegative = 0
    """Chooses which episodes are taken."""


class Corrections(Strict, frozen=True, kw_only=True, tag_field="kind", tag="corrections"):
    """DAgger: the policy acts, the expert corrects."""

    checkpoint: str
    """Checkpoint that acts: train stage folder, pretrained_model folder, or hub id. On the command
    line also RUN (its blessed one), RUN:CYCLE, or blessed (the newest blessed one)."""
    tasks: Tasks = ("easy3",)
    """Tasks or task sets (easy3, mt10, all)."""
    episodes_per_task: Positive = 10
    """Corrected episodes to keep for each task."""
    mode: Literal["takeover", "relabel"] = "takeover"
    """takeover: the expert finishes what the policy cannot, and that part is kept.
    relabel: the policy acts to the end, every step is labelled with what the expert would do."""
    patience: Positive = 60
    """Steps without progress after which the expert takes over."""
    max_attempts_per_task: NotNegative = 0
    """Give up on a task after this many episodes. 0: five times episodes_per_task."""
    seed: NotNegative = int(SeedBlock.COLLECT)
    """First seed; attempts count up from it."""
    workers: NotNegative = 0
    """Processes. 0: one per core."""
    device: str = "cpu"
    """auto (the GPU, and the CPU where there is none), cpu, cuda, cuda:N or mps."""


CollectRequest = ExpertDemos | ExistingDataset | Corrections


class AttemptCounts(Strict, frozen=True, kw_only=True):
    """Episodes kept of those attempted."""

    kept: int
    attempted: int


class AddedData(Strict, frozen=True, kw_only=True):
    """The part of a merged dataset that this stage brought."""

    digest: str
    root: str
    episodes: int


class DatasetRecord(Strict, frozen=True, kw_only=True, tag_field="kind", tag="dataset_record"):
    """Exactly which data: enough to train on it again and to find it from a checkpoint."""

    repo_id: str
    root: str
    revision: str
    episodes: tuple[int, ...]
    """Every episode index in use, in order."""
    digest: str
    """sha256 of the content of these episodes (stages.digest)."""
    fps: int
    frames: int
    tasks: dict[str, int]
    """Episodes by task text."""
    source: str
    """expert, dataset, corrections, harvest, correct or mix."""
    tallies: dict[str, AttemptCounts] = {}
    """Kept and attempted by task, where episodes were attempted."""
    parents: tuple[str, ...] = ()
    """Digests of the checkpoint or the datasets that this one came from."""
    total_episodes: int
    """Episodes in the folder, of which `episodes` are used."""
    added: AddedData | None = None
    """What was put to the datasets that were there before."""


class ImproveRequest(Strict, frozen=True, kw_only=True, tag_field="kind", tag="improve"):
    """Roll a policy out, keep what teaches, and merge it into the demonstrations."""

    checkpoint: str
    """Checkpoint that acts: train stage folder, pretrained_model folder, or hub id. On the command
    line also RUN (its blessed one), RUN:CYCLE, or blessed (the newest blessed one)."""
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
    mixing_ratio: MixingRatio = 0.5
    """At most this share of the mix's episodes is self-generated, added ones and earlier ones."""
    patience: Positive = 60
    """Steps without progress after which the expert takes over."""
    seed: NotNegative = int(SeedBlock.IMPROVE)
    """First seed; attempts count up from it."""
    workers: NotNegative = 0
    """Processes. 0: one per core."""
    device: str = "cpu"
    """auto (the GPU, and the CPU where there is none), cpu, cuda, cuda:N or mps."""


class MixRecord(Strict, frozen=True, kw_only=True, tag_field="kind", tag="mix_record"):
    """The mix, and how it came about."""

    dataset: DatasetRecord
    method: str
    checkpoint_digest: str
    tallies: dict[str, AttemptCounts]
    """Kept and attempted by task, before the cap."""
    added: dict[str, int]
    """Episodes that went into the mix, by task."""
    self_generated: int
    """Self-generated episodes in the mix, those of earlier mixes included."""
    note: str = ""
    """What a person should know, for instance that nothing could be kept."""
