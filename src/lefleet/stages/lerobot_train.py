"""LeRobot's training: its command line, and what it prints."""

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lefleet.devices.names import kept_to, kind_of
from lefleet.errors import StageFailed
from lefleet.records import LossPoint, TrainRequest
from lefleet.stages.normalisation import SETTING
from lefleet.stages.suitability import NewStatistics
from lefleet.stages.wandb_guard import offline_flags

SMALL_STATE_ACT = {
    "use_vae": "false",
    "dim_model": "64",
    "dim_feedforward": "256",
    "n_heads": "4",
    "n_encoder_layers": "2",
    "chunk_size": "10",
    "n_action_steps": "5",
    "dropout": "0.0",
}
"""An ACT that suits state vectors and trains in a minute on one core."""

CHANGES = "LEFLEET_TRAINING"
"""Variable that tells compat.train what to change of LeRobot's training, as JSON."""
_NEEDS_NO_HUB = frozenset({"act", "diffusion", "vqbet", "tdmpc"})


OWNED_FLAGS = {
    "dataset.repo_id": "dataset",
    "dataset.root": "dataset",
    "dataset.episodes": "dataset",
    "policy.path": "init",
    "policy.type": "policy_type",
    "policy.device": "device",
    "output_dir": "out",
    "steps": "steps",
    "batch_size": "batch_size",
    "num_workers": "num_workers",
    "seed": "seed",
    "save_freq": "save_every",
    "log_freq": "log_every",
    "rename_map": "rename_map",
    "resume": "out",
    "config_path": "out",
}
"""Flags of lerobot-train that a field of the request stands for."""


class TrainingData(Protocol):
    """What a training needs to know of its data: a `DatasetRecord`, or one that is only planned."""

    @property
    def repo_id(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def episodes(self) -> tuple[int, ...]: ...


class Invocation(NamedTuple):
    """What to start."""

    argv: tuple[str, ...]
    environment: dict[str, str]


def start_command(
    request: TrainRequest,
    dataset: TrainingData,
    output: Path,
    *,
    init: str,
    policy_type: str,
    is_state_only: bool,
    episodes_present: int,
    mapping: str = "",
    statistics: NewStatistics | None = None,
    fresh: str = "",
) -> Invocation:
    """A training from its beginning, or from the checkpoint `init`.

    `mapping` is the policy's normalization_mapping where LeRobot's default is not meant, and
    `statistics` are those of the dataset to replace. `fresh` is the folder of a policy with random
    weights, for data that LeRobot's own beginning does not suit.
    """
    small = is_state_only and policy_type == "act"
    settings = {
        **(SMALL_STATE_ACT if small and not init else {}),
        **({SETTING: mapping} if mapping else {}),
        **request.policy,
    }
    flags = {
        "dataset.repo_id": dataset.repo_id,
        "dataset.root": dataset.root,
        "dataset.episodes": _episodes(dataset, episodes_present),
        "policy.path" if init or fresh else "policy.type": init or fresh or request.policy_type,
        # LeRobot gets the kind alone: `_environment` hides the other GPUs.
        "policy.device": kind_of(request.device),
        "policy.push_to_hub": "false",
        **{f"policy.{name}": value for name, value in settings.items()},
        **(_cosine(request) if small else {}),
        "output_dir": str(output),
        "job_name": "lefleet",
        "steps": str(request.steps),
        "batch_size": str(request.batch_size),
        "num_workers": str(request.num_workers),
        "seed": str(request.seed),
        "save_freq": str(save_every(request)),
        "log_freq": str(log_every(request)),
        "env_eval_freq": "0",
        "wandb.enable": "false",
        **(offline_flags(output) if request.wandb else {}),
        "rename_map": json.dumps(request.rename_map) if request.rename_map else "",
    }
    # A flag that is given twice is refused: LeRobot's parsers do not agree on which one counts.
    named = {flag.removeprefix("--").partition("=")[0] for flag in request.extra_args}
    own = {name: value for name, value in flags.items() if name not in named}
    argv = (*_program(request, statistics), *_as_flags(own), *request.extra_args)
    return Invocation(
        argv, _environment(request, policy_type) | _changes(request, statistics or {})
    )


def resume_command(request: TrainRequest, checkpoint: Path, *, policy_type: str) -> Invocation:
    """The same training from `checkpoint` on; LeRobot takes all settings from there."""
    flags = {
        "config_path": str(checkpoint / "pretrained_model" / "train_config.json"),
        "resume": "true",
    }
    plugins = [flag for flag in request.extra_args if ".discover_packages_path=" in flag]
    argv = (*_program(request), *_as_flags(flags), *plugins)
    return Invocation(argv, _environment(request, policy_type))


def save_every(request: TrainRequest) -> int:
    """Steps between checkpoints."""
    return request.save_every or max(1, request.steps // 5)


def log_every(request: TrainRequest) -> int:
    """Steps between points of the loss curve; a short training has at least one."""
    return min(request.log_every, request.steps)


def _program(request: TrainRequest, statistics: NewStatistics | None = None) -> tuple[str, ...]:
    is_ours = request.memory_data or bool(statistics) or bool(request.rename_map)
    module = "lefleet.compat.train" if is_ours else "lerobot.scripts.lerobot_train"
    return (sys.executable, "-m", module)


def _changes(request: TrainRequest, statistics: NewStatistics) -> dict[str, str]:
    """What compat.train is told beside its flags, which are LeRobot's."""
    changes: dict[str, Any] = {"statistics": statistics} if statistics else {}
    if not request.memory_data:
        changes["memory_data"] = False
    return {CHANGES: json.dumps(changes)} if changes else {}


def needs_no_hub(policy_type: str) -> bool:
    """Whether a policy of this family is built from its config and the data alone."""
    return policy_type in _NEEDS_NO_HUB


def training_environment(policy_type: str, *, wandb: bool = False) -> dict[str, str]:
    """Variables of a training process."""
    environment = {"TQDM_MININTERVAL": "0.5"}
    if wandb:
        # W&B reports its own errors to its makers otherwise, also offline.
        environment["WANDB_ERROR_REPORTING"] = "false"
    if needs_no_hub(policy_type):
        environment["HF_HUB_OFFLINE"] = "1"
    return environment


def _environment(request: TrainRequest, policy_type: str) -> dict[str, str]:
    variables = training_environment(policy_type, wandb=request.wandb)
    return variables | kept_to(request.device, os.environ)


def _episodes(dataset: TrainingData, present: int) -> str:
    """Empty when all that are `present` are used: LeRobot then needs no index mapping."""
    if len(dataset.episodes) == present:
        return ""
    return json.dumps(list(dataset.episodes), separators=(",", ":"))


def _cosine(request: TrainRequest) -> dict[str, str]:
    warm_up = min(50, max(1, request.steps // 10))
    return {
        "use_policy_training_preset": "false",
        "optimizer.type": "adamw",
        "optimizer.lr": str(request.learning_rate),
        "optimizer.weight_decay": "1e-4",
        "optimizer.grad_clip_norm": "10.0",
        "scheduler.type": "cosine_decay_with_warmup",
        "scheduler.num_warmup_steps": str(warm_up),
        "scheduler.num_decay_steps": str(request.steps),
        "scheduler.peak_lr": str(request.learning_rate),
        "scheduler.decay_lr": str(request.learning_rate / 50),
    }


def _as_flags(flags: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items() if value]


START_MARK = "lefleet: training starts from step"

_NUMBER = r"([-+\w.]+)"
_METRICS = re.compile(
    rf"\bstep:\S+ .*\bloss:{_NUMBER} grdn:{_NUMBER} lr:{_NUMBER}",
)
_BAR = re.compile(r"Training:\s+\d+%\|.*\|\s+(\d+)/\d+\s+\[")
_FALLBACK = re.compile(r"Device '([^']*)' is not available\. Switching to '([^']*)'")


def parse_bar(line: str) -> int | None:
    """Steps of this process that LeRobot's progress bar shows."""
    found = _BAR.search(line)
    return int(found[1]) if found else None


def parse_metrics(line: str) -> tuple[float, float, float] | None:
    """Loss, gradient norm and learning rate of a log line."""
    found = _METRICS.search(line)
    return (float(found[1]), float(found[2]), float(found[3])) if found else None


def lost_device(line: str, wanted: str) -> StageFailed | None:
    """The error for a line in which LeRobot says that it goes on without the device that it was
    told to use. It says so of other devices too, for instance of the one that a checkpoint to
    continue from was trained on."""
    found = _FALLBACK.search(line)
    if found is None or found[1] != kind_of(wanted):
        return None
    return StageFailed(
        f"Training was stopped: LeRobot finds no {found[1]} and would train on {found[2]}.",
        "Find out why with lefleet doctor, then run the same command again, or use another device.",
    )


def read_curve(lines: Iterable[str], log_every: int) -> tuple[list[LossPoint], list[int]]:
    """Loss curve and the steps at which the training was resumed.

    LeRobot abbreviates steps ("1K"), so they are counted: one line every `log_every` steps.
    What was computed after the checkpoint that a later attempt started from is dropped.
    """
    curve: list[LossPoint] = []
    resumed: list[int] = []
    step = 0
    for line in lines:
        if START_MARK in line:
            start = int(line.split()[-1])
            resumed += [start] if start else []
            curve = [point for point in curve if point.step <= start]
            step = start - start % log_every
        elif metrics := parse_metrics(line):
            step += log_every
            loss, grad_norm, rate = metrics
            curve.append(
                LossPoint(
                    step=step,
                    loss=_number(loss),
                    grad_norm=_number(grad_norm),
                    learning_rate=rate,
                )
            )
    return curve, resumed


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
