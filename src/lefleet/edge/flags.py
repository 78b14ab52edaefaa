"""The flags of `lefleet rollout`: LeRobot's own, for robots with and without a network."""

import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field

from draccus.utils import ParsingError
from lerobot.configs import PreTrainedConfig, parser
from lerobot.rollout.configs import RolloutConfig

from lefleet.edge.config import RemoteInferenceConfig
from lefleet.edge.guard import GuardConfig
from lefleet.errors import BadInput
from lerobot_policy_lefleet import LefleetConfig

_PUSH = "--dataset.push_to_hub"
_HELP = "See: lefleet rollout --help"


@dataclass
class EdgeRolloutConfig(RolloutConfig):
    """LeRobot's flags, and the guard's.

    With `--inference.type=remote` the server has the policy, so `--policy.path` may be left out; if
    it is given, only its config is read, and compared with what the server says.

    Uploads are off unless they are asked for, and happen after the robot is disconnected: LeRobot
    uploads first, and without a network its teardown then never reaches the robot.
    """

    policy: PreTrainedConfig | None = None
    guard: GuardConfig = field(default_factory=GuardConfig)
    """Limits per joint and step, the last check before the driver."""
    uploads: bool = field(default=False, init=False)
    """Whether the dataset is uploaded at the end."""

    def __post_init__(self) -> None:
        if isinstance(self.inference, RemoteInferenceConfig) and self.policy is None:
            self.policy = LefleetConfig()
        super().__post_init__()
        if self.dataset is not None:
            is_asked = any(one.partition("=")[0] == _PUSH for one in sys.argv)
            self.uploads = bool(self.dataset.push_to_hub) and is_asked
            self.dataset.push_to_hub = False


def parse_flags(arguments: Sequence[str]) -> EdgeRolloutConfig:
    """The config of a command line, parsed as `lerobot-rollout` does it; BadInput for mistakes.

    LeRobot reads sys.argv, also when it loads a policy's config.
    """
    found: list[EdgeRolloutConfig] = []

    def keep(cfg: EdgeRolloutConfig) -> None:
        found.append(cfg)

    before, sys.argv = sys.argv, ["lefleet rollout", *arguments]
    complaints = io.StringIO()
    try:
        with redirect_stderr(complaints):
            parser.wrap()(keep)()
    except (ValueError, ParsingError) as error:
        raise BadInput(_plain(error), _HELP) from error
    except SystemExit as end:
        if not end.code:
            raise
        # argparse prints every flag there is, and then what was wrong.
        last = complaints.getvalue().strip().splitlines()[-1].partition("error: ")[2]
        raise BadInput(f"{last}.", _HELP) from None
    finally:
        sys.argv = before
    return found[0]


def _plain(error: Exception) -> str:
    """The innermost reason: draccus wraps what a config's own check says."""
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    text = " ".join(str(error).split())
    return text if text.endswith(".") else f"{text}."
