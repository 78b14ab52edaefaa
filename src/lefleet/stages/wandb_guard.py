"""LeRobot's W&B inside a training, kept from failing it: where W&B fails or hangs, the training
goes on without it, and the record says why."""

from pathlib import Path
from typing import TYPE_CHECKING

from lefleet.durable import write_durably
from lefleet.errors import ChildKilled, StageFailed
from lefleet.records.checkpoint import OFFLINE_WANDB

if TYPE_CHECKING:
    from lefleet.stages.lerobot_train import Invocation

_STARTS, _PROBLEM = "wandb_starts", "wandb_problem"
_MAX_STARTS = 2
"""From one step on. After these W&B may be what keeps the training from going on."""


class WandbGuard:
    """Of one training; what it knows is in the stage's folder. Attempts that were stopped count
    too: nobody can say what they would have come to."""

    def __init__(self, folder: Path, *, is_wanted: bool) -> None:
        self._starts, self._problem = folder / _STARTS, folder / _PROBLEM
        self._is_wanted = is_wanted

    @property
    def problem(self) -> str:
        """Why the training is not logged, or not all of it; empty where it is."""
        is_known = self._is_wanted and self._problem.exists()
        return self._problem.read_text() if is_known else ""

    def begin(self, step: int) -> bool:
        """The training starts from `step`; whether with W&B."""
        if not self._is_wanted or self.problem:
            return False
        starts = self._starts.read_text().split() if self._starts.exists() else []
        if starts[-_MAX_STARTS:] == [str(step)] * _MAX_STARTS:
            self._give_up(f"{_MAX_STARTS} attempts with W&B got no further than step {step}")
            return False
        write_durably(self._starts, " ".join([*starts, str(step)]).encode())
        return True

    def is_to_blame(self, error: StageFailed) -> bool:
        """Whether W&B failed the training, which can then go on without it."""
        is_running = self._is_wanted and not self.problem and not isinstance(error, ChildKilled)
        if not is_running or "wandb" not in error.problem:
            return False
        self._give_up(f"W&B failed: {error.problem}")
        return True

    def _give_up(self, why: str) -> None:
        write_durably(self._problem, why.encode())


def offline_flags(output: Path) -> dict[str, str]:
    """W&B's files beside the checkpoints in `output`, without copies of these."""
    return {
        **OFFLINE_WANDB,
        # W&B's name of the training, for instance demo/cycle_0/train.
        "job_name": "/".join(output.parts[-4:-1]),
    }


def without_wandb(command: "Invocation") -> "Invocation":
    """The same training, also where it began with W&B."""
    kept = [one for one in command.argv if not one.startswith("--wandb.")]
    return command._replace(argv=(*kept, "--wandb.enable=false"))
