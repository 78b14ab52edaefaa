"""A trained checkpoint and the contract that lies beside its weights."""

from lefleet.records.border import Strict


class Contract(Strict, frozen=True, kw_only=True):
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
    """What stands for names where nobody ever gave any."""
    return tuple(str(column) for column in range(size))


def are_numbers(names: tuple[str, ...]) -> bool:
    """Whether columns are only numbered, so that their order is not known."""
    return names == column_numbers(len(names))


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
    contract: Contract
    init_digest: str = ""
    """Checkpoint that the training started from, empty for a fresh one."""
    resumed_at: tuple[int, ...] = ()
    """Steps at which the training was taken up again after an interruption."""
