"""A run's config: a YAML file, and `--a.b=c` on top of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lefleet.errors import BadInput
from lefleet.loop.requests import demonstrations
from lefleet.loop.seeds import PER_CYCLE, PER_RUN, first_seed
from lefleet.records import ExpertGrowth, RunConfig, SeedBlock
from lefleet.records.border import as_bad_input
from lefleet.sim.tasks import resolve_tasks
from lefleet.stages.collect import max_attempts


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The config in `path` with `overrides` (`--a.b=c`) merged in before it is decoded."""
    try:
        raw = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise BadInput(f"config: {path} cannot be read: {error.strerror}.") from error
    except yaml.YAMLError as error:
        raise BadInput(f"config: {path} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(raw, dict):
        raise BadInput(f"config: {path} must hold fields and values.", "See configs/demo.yaml.")
    for override in overrides:
        _merge(raw, override)
    try:
        config = msgspec.convert(raw, RunConfig)
    except msgspec.ValidationError as error:
        raise as_bad_input(error, str(path)) from error
    _check(config)
    return config


def _merge(raw: dict[str, Any], override: str) -> None:
    key, equals, value = override.removeprefix("--").partition("=")
    if not override.startswith("--") or not equals:
        raise BadInput(f"{override}: not an override.", "Write it as --key=value.")
    *path, last = key.split(".")
    for name in path:
        raw = raw.setdefault(name, {})
        if not isinstance(raw, dict):
            raise BadInput(f"{key}: {name} has no fields.")
    try:
        raw[last] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise BadInput(f"{key}: {value!r} is not a YAML value.") from error


def count_tasks(config: RunConfig) -> int:
    """Tasks of a run; those of another environment are as the config names them."""
    return len(config.tasks if config.evaluate.env else resolve_tasks(config.tasks))


def _check(config: RunConfig) -> None:
    """What types alone cannot say."""
    if (
        not config.name
        or any(letter in config.name for letter in "/\\ \0")
        or config.name[0] == "."
    ):
        raise BadInput(
            f"name: {config.name!r} cannot name a folder.", "Use letters, digits, - and _."
        )
    if not config.evaluate.env:
        resolve_tasks(config.tasks)
    if isinstance(config.collect, ExpertGrowth):
        counts = [demonstrations(config.collect, cycle) for cycle in range(-1, 2)]
        schedule = (0, *config.collect.episodes_per_task)
        if sorted(set(schedule)) != list(schedule) or sorted(set(counts)) != counts:
            raise BadInput("collect.episodes_per_task: the numbers must grow.")
        if max_attempts(schedule[-1]) > PER_CYCLE:
            raise BadInput(
                f"collect.episodes_per_task: there are only {PER_CYCLE} seeds for a cycle.",
                "Ask for fewer.",
            )
    elif config.improve.method != "none":
        raise BadInput(
            "improve.method: an existing dataset cannot be added to.", "Use collect.source: expert."
        )
    first_seed(SeedBlock.GATE, config.seed, config.budgets.cycles - 1)
    for name, count, room in (
        ("gate.max_pairs", -(-config.gate.max_pairs // count_tasks(config)), PER_CYCLE),
        ("improve.episodes_per_task", 5 * config.improve.episodes_per_task, PER_CYCLE),
        ("evaluate.episodes_per_task", config.evaluate.episodes_per_task, PER_RUN),
    ):
        if count > room:
            raise BadInput(f"{name}: there are only {room} seeds for it.", "Ask for fewer.")
