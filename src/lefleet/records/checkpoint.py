"""What to train, on what, for how long; the checkpoint, and the contract beside its weights."""

from collections.abc import Mapping
from typing import Annotated, Any

from typing_extensions import Doc

from lefleet.records.border import Strict
from lefleet.records.fields import LearningRate, NotNegative, Positive

OFFLINE_WANDB = {
    "wandb.enable": "true",
    "wandb.mode": "offline",
    "wandb.project": "lefleet",
    "wandb.disable_artifact": "true",
}
"""LeRobot's flags for W&B as files on this machine, without copies of checkpoints."""


class TrainRequest(Strict, frozen=True, kw_only=True, tag_field="kind", tag="train"):
    """LeRobot's training; `policy` and `extra_args` reach every flag of `lerobot-train`."""

    dataset: str
    """Collect or improve stage folder, or a LeRobotDataset folder."""
    tasks: tuple[str, ...] = ()
    """Tasks that will be evaluated: each must be in the data. Empty: not checked."""
    policy_type: str = "act"
    """LeRobot policy family of a fresh policy; with init, the checkpoint's family is used."""
    init: str = ""
    """Checkpoint to continue from: train stage folder, pretrained_model folder, or hub id. On the
    command line also RUN (its blessed one), RUN:CYCLE, or blessed (the newest blessed one)."""
    policy: dict[str, str] = {}
    """Policy settings by name, passed on as --policy.NAME=VALUE; they override the defaults of the
    small state policy. On the command line: --policy NAME VALUE NAME VALUE."""
    steps: Positive = 1000
    """Training steps."""
    batch_size: Positive = 64
    """Samples per step."""
    learning_rate: LearningRate = 1e-3
    """Peak learning rate of the small state policy. Others have LeRobot's, or that in policy:
    --policy optimizer_lr VALUE."""
    save_every: NotNegative = 0
    """Steps between checkpoints to resume from. 0: a fifth of the training."""
    log_every: Positive = 50
    """Steps between points of the loss curve."""
    num_workers: NotNegative = 0
    """Loader processes. State data comes from memory and needs none."""
    device: str = "cpu"
    """auto (the GPU, and the CPU where there is none), cpu, cuda, cuda:N or mps."""
    seed: NotNegative = 0
    """Seed of weights and data order."""
    rename_map: dict[str, str] = {}
    """Observation keys of the dataset to those that the policy expects."""
    memory_data: Annotated[
        bool, Doc("Let LeRobot read state data from disk, frame by frame; slower.")
    ] = True
    """Read state data from memory, with the same samples, where LeRobot's version is known. The
    flag that switches it off has a help of its own."""
    wandb: bool = False
    """Let LeRobot log the training to W&B, offline: files in training/wandb, for wandb sync. Where
    W&B fails, the training goes on without it."""
    extra_args: tuple[str, ...] = ()
    """Further flags for lerobot-train, as they are. On the command line: after a lone --."""


class CheckpointContract(Strict, frozen=True, kw_only=True):
    """What the columns mean: `lefleet.json` beside the weights. Column order maps to motors."""

    action_names: tuple[str, ...]
    vectors: dict[str, tuple[str, ...]]
    """Ordered names of each input vector by feature key."""
    cameras: dict[str, tuple[int, ...]]
    """Shape of each image by feature key."""
    fps: int
    policy_type: str
    robot_type: str
    tasks: tuple[str, ...]
    """Task texts of the training data."""
    dataset_digest: str


def column_numbers(size: int) -> tuple[str, ...]:
    """What stands for names where the data has none."""
    return tuple(str(column) for column in range(size))


def are_numbers(names: tuple[str, ...]) -> bool:
    """Whether columns are only numbered, so that their order is not known."""
    return names == column_numbers(len(names))


ENVIRONMENT_STEP = "lefleet_environment_state"
"""The step of a preprocessor that makes an environment state from the robot's state; the package
`lerobot_policy_lefleet` registers it."""


def made_inputs(preprocessor: Mapping[str, Any]) -> frozenset[str]:
    """Inputs that a checkpoint makes itself, by its `policy_preprocessor.json`: no robot sends
    them.

    >>> sorted(made_inputs({"steps": [{"registry_name": "lefleet_environment_state"}]}))
    ['observation.environment_state']
    """
    names = {step.get("registry_name") for step in preprocessor.get("steps") or ()}
    made = ("observation.environment_state",) if ENVIRONMENT_STEP in names else ()
    return frozenset(made)


def leave_out_download(config: Any) -> None:
    """Of a policy config whose checkpoint is loaded: that has the backbone's weights, and
    torchvision would download others first."""
    if hasattr(config, "pretrained_backbone_weights"):
        config.pretrained_backbone_weights = None


class Normalisation(Strict, frozen=True, kw_only=True):
    """How numbers are scaled on their way into the network and out of it."""

    mapping: dict[str, str]
    """LeRobot's mode by the type of a feature (STATE, ENV, ACTION, VISUAL). What is not named stays
    as it is."""
    reason: str
    """Why this mapping."""
    unscaled: dict[str, tuple[str, ...]] = {}
    """Columns that never change in the data, by feature: they are centred, and not divided by their
    spread."""

    def sentence(self) -> str:
        """`normalisation: MEAN_STD for STATE, ACTION; IDENTITY for VISUAL: why`."""
        kinds: dict[str, list[str]] = {}
        for kind, mode in self.mapping.items():
            kinds.setdefault(mode, []).append(kind)
        words = "; ".join(f"{mode} for {', '.join(names)}" for mode, names in kinds.items())
        return f"normalisation: {words or 'not known'}: {self.reason}"


class LossPoint(Strict, frozen=True, kw_only=True):
    """One line of the training log."""

    step: int
    loss: float | None
    """None where LeRobot printed something that is no number."""
    grad_norm: float | None
    learning_rate: float


class CheckpointRecord(
    Strict, frozen=True, kw_only=True, tag_field="kind", tag="checkpoint_record"
):
    """A finished training."""

    path: str
    """The pretrained_model folder."""
    digest: str
    """sha256 over every file that inference reads (stages.digest)."""
    policy_type: str
    steps: int
    final_loss: float | None
    """None where the training log is lost."""
    curve: tuple[LossPoint, ...]
    contract: CheckpointContract
    init_digest: str = ""
    """Checkpoint that the training started from, empty for a fresh one."""
    resumed_at: tuple[int, ...] = ()
    """Steps at which the training was taken up again after an interruption."""
    normalisation: Normalisation | None = None
    """None in records of versions that did not record it."""
    wandb_problem: str = ""
    """Why W&B was asked for and left out."""
