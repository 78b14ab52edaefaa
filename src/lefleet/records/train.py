"""What to train, on what, for how long."""

from typing import Annotated

from msgspec import Meta

from lefleet.records.border import Strict
from lefleet.records.collect import NotNegative, Positive


class TrainRequest(Strict, frozen=True, kw_only=True, tag_field="kind", tag="train"):
    """LeRobot's training; `policy` and `extra_args` reach every flag of `lerobot-train`."""

    dataset: str
    """Collect or improve stage folder, or a LeRobotDataset folder."""
    tasks: tuple[str, ...] = ()
    """Tasks that will be evaluated: each must be in the data. Empty: not checked."""
    policy_type: str = "act"
    """LeRobot policy family of a fresh policy; with init, the checkpoint's own counts."""
    init: str = ""
    """Checkpoint to continue from (stage folder, pretrained_model folder, hub id)."""
    policy: dict[str, str] = {}
    """Policy settings by name, passed on as --policy.NAME=VALUE, over those that suit a small state
    policy. On the command line: --policy NAME VALUE NAME VALUE."""
    steps: Positive = 1000
    """Training steps."""
    batch_size: Positive = 64
    """Samples per step."""
    learning_rate: Annotated[float, Meta(gt=0.0, le=1.0)] = 1e-3
    """Peak learning rate of the small state policy."""
    save_every: NotNegative = 0
    """Steps between checkpoints to resume from. 0: a fifth of the training."""
    log_every: Positive = 50
    """Steps between points of the loss curve."""
    num_workers: NotNegative = 0
    """Loader processes. State data comes from memory and needs none."""
    device: str = "cpu"
    """Torch device."""
    seed: NotNegative = 0
    """Seed of weights and data order."""
    rename_map: dict[str, str] = {}
    """Observation keys of the dataset to those that the policy expects."""
    memory_data: bool = True
    """Serve state data from memory where LeRobot's version is known (identical samples)."""
    extra_args: tuple[str, ...] = ()
    """Further flags for lerobot-train, as they are. On the command line: after a lone --."""
