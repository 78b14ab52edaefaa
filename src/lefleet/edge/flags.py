"""The flags of `lefleet rollout`: LeRobot's own, for robots with and without a network."""

import io
import re
import shutil
import sys
from argparse import ArgumentError
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from difflib import get_close_matches

from draccus.utils import ParsingError
from lerobot.configs import PreTrainedConfig, parser
from lerobot.configs.dataset import DatasetRecordConfig
from lerobot.configs.parser import PluginLoadError
from lerobot.rollout.configs import (
    BaseStrategyConfig,
    DAggerStrategyConfig,
    RolloutConfig,
    SentryStrategyConfig,
)
from yaml import YAMLError

from lefleet.edge.config import RemoteInferenceConfig
from lefleet.edge.judge import GuardConfig
from lefleet.errors import BadInput, LeFleetError, why_not_a_folder
from lerobot_policy_lefleet import LefleetConfig

_PREFIX = "rollout_"
"""LeRobot wants it, so that recordings of policies are told from demonstrations."""
_HELP = "See: lefleet rollout --help"
_FEW = 6
"""Choices that a message may list."""


def can_speak() -> bool:
    """Whether there is one of the programs that LeRobot speaks with."""
    return any(shutil.which(program) for program in ("spd-say", "say", "PowerShell"))


@dataclass
class EdgeDatasetConfig(DatasetRecordConfig):
    """LeRobot's flags of a dataset, with two other defaults."""

    push_to_hub: bool = False
    """Upload the dataset, when the robot is disconnected."""
    fps: int = 0
    """0: as many frames in a second as are recorded."""


@dataclass
class EdgeRolloutConfig(RolloutConfig):
    """LeRobot's flags, and the guard's.

    With `--inference.type=remote` the server has the policy, so `--policy.path` may be left out; if
    it is given, only its config is read, and compared with what the server says.

    Uploads are off unless they are asked for, and happen after the robot is disconnected: LeRobot
    uploads first, and without a network its teardown then never reaches the robot.
    """

    policy: PreTrainedConfig | None = None
    dataset: EdgeDatasetConfig | None = None
    play_sounds: bool = field(default_factory=can_speak)
    """Read out what happens; on where the machine has a program for it."""
    guard: GuardConfig = field(default_factory=GuardConfig)
    """Limits per joint and step, the last check before the driver."""
    uploads: bool = field(default=False, init=False)
    """Whether the dataset is uploaded at the end."""

    def __post_init__(self) -> None:
        if self.robot is None:
            raise BadInput("robot.type: is missing.", "For instance --robot.type=so101_follower")
        if not isinstance(self.strategy, BaseStrategyConfig):
            _require_name(self.strategy.type, self.dataset, is_new=not self.resume)
        if isinstance(self.inference, RemoteInferenceConfig):
            self.policy = self.policy or LefleetConfig()
        elif self.policy is None and parser.get_path_arg("policy") is None:
            raise BadInput(
                f"policy.path: is missing; {self.inference.type} needs the weights here.",
                "Or ask a server: --inference.type=remote",
            )
        _require_checkpoint(parser.get_path_arg("policy"))
        super().__post_init__()
        if self.dataset is not None:
            self._settle_dataset(self.dataset)

    def _settle_dataset(self, dataset: EdgeDatasetConfig) -> None:
        self.uploads, dataset.push_to_hub = dataset.push_to_hub, False
        if isinstance(self.strategy, SentryStrategyConfig | DAggerStrategyConfig):
            # They would upload in between, whatever push_to_hub says.
            self.strategy.upload_every_n_episodes = sys.maxsize
        # All but dagger record the actions in between, too.
        is_thinned = isinstance(self.strategy, DAggerStrategyConfig)
        rate = self.fps * (1 if is_thinned else self.interpolation_multiplier)
        if dataset.fps not in (0, rate) or rate != round(rate):
            raise BadInput(
                f"dataset.fps: {dataset.fps or rate:g}, and {rate:g} frames are recorded a second.",
                "Leave it out." if dataset.fps else "LeRobot's datasets need a whole number: --fps",
            )
        dataset.fps = round(rate)


def _require_name(strategy: str, dataset: EdgeDatasetConfig | None, *, is_new: bool) -> None:
    if dataset is None or not dataset.repo_id:
        raise BadInput(
            f"dataset.repo_id: is missing; the strategy {strategy} records.",
            f"For instance --dataset.repo_id=local/{_PREFIX}test",
        )
    name = dataset.repo_id.rpartition("/")[2]
    if is_new and not name.startswith(_PREFIX):
        raise BadInput(
            f"dataset.repo_id: {dataset.repo_id} must have a name that starts with {_PREFIX}.",
            f"For instance --dataset.repo_id=local/{_PREFIX}{name}",
        )


def _require_checkpoint(path: str | None) -> None:
    """LeRobot takes a folder that is not there for the name of a repository."""
    if path and path.startswith(("/", "./", "../", "~")) and (problem := why_not_a_folder(path)):
        raise BadInput(f"policy.path: {path} {problem}.")


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
    except (ArgumentError, OSError, ParsingError, PluginLoadError, ValueError, YAMLError) as error:
        raise plain_error(error, _HELP) from error
    except SystemExit as end:
        if not end.code:
            raise
        raise BadInput(_complaint(complaints.getvalue()), _HELP) from None
    finally:
        sys.argv = before
    return found[0]


def plain_error(error: BaseException, remedy: str = "") -> LeFleetError:
    """What LeFleet said, or else the innermost reason: LeRobot and draccus wrap both."""
    while not isinstance(error, LeFleetError | PluginLoadError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, LeFleetError):
        return error
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    return BadInput(text if text.endswith((".", "?")) else f"{text}.", remedy)


def _complaint(printed: str) -> str:
    """argparse prints every flag there is, and then what is wrong."""
    usage, _, wrong = printed.strip().rpartition("error: ")
    if choice := re.search(
        r"argument --(\S+): invalid choice: '(.*?)' \(choose from (.*)\)", wrong
    ):
        name, value, choices = choice.groups()
        known = re.findall(r"'([^']+)'", choices)
        return f"{name}: there is no {value!r}. {_near(value, known, 3) or _list(known)}".strip()
    if flag := re.match(r"unrecognized arguments: (\S+)", wrong):
        written = flag[1].partition("=")[0]
        if not written.startswith("--"):
            return f"Unexpected argument {written}: flags are written --NAME=VALUE."
        known = re.findall(r"--[\w.]+", usage)
        return f"There is no flag {written}. {_near(written, known, 1)}".strip()
    return f"{wrong.replace('`', '')}."


def _near(word: str, known: list[str], most: int) -> str:
    near = get_close_matches(word, dict.fromkeys(known), n=most)
    return f"Did you mean {' or '.join(near)}?" if near else ""


def _list(known: list[str]) -> str:
    return f"Choose from: {', '.join(known)}." if len(known) <= _FEW else ""
