"""A run's config: a YAML file, and `--a.b=c` on top of it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lefleet.cluster.jobs import require_address
from lefleet.devices import AUTO, parse_device
from lefleet.errors import BadInput
from lefleet.ledger.address import parse_url
from lefleet.loop.requests import (
    PER_CYCLE,
    PER_RUN,
    count_tasks,
    require_seeds,
    scheduled,
)
from lefleet.loop.training import require_families
from lefleet.models.client import ModelName
from lefleet.notify import require_sendable
from lefleet.records import DatasetSource, ExpertGrowth, RunConfig
from lefleet.records.config_file import converted, merge, read_fields
from lefleet.sim.tasks import resolve_tasks
from lefleet.stages.cameras import require_own_cameras
from lefleet.stages.collect import max_attempts
from lefleet.track import require_trackers

OWN_TASKS = (
    "Tasks of your own need the LeRobot environment that has them: set evaluate.env, for instance "
    "--evaluate.env.type=pusht."
)
DEMO_CONFIG = Path(__file__).with_name("demo.yaml")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_RESERVED = {
    "blessed": "it means the newest blessed checkpoint",
    "comparisons": "lefleet compare writes to the folder of that name",
    "knowledge": "knowledge pages are in the folder of that name",
}


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The config in `path` with `overrides` (`--a.b=c`) merged in before it is decoded."""
    raw = read_fields(path, "config", "configs/demo.yaml")
    merge(raw, overrides)
    return config_of(raw, str(path), overrides)


def config_of(raw: dict[str, Any], source: str, overrides: Sequence[str] = ()) -> RunConfig:
    """The config that these fields are, checked."""
    if raw.get("track") in ("none", ["none"]):
        raw = raw | {"track": []}
    config = converted(raw, RunConfig, source, overrides)
    _check(config)
    return _anchored(config)


def corrected(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """The config of a run with these fields changed, checked; of a section that is given as a
    whole, fields that are not named stay as they are."""
    raw: dict[str, Any] = msgspec.to_builtins(config)
    for override in overrides:
        key = override.removeprefix("--").partition("=")[0]
        before = raw.get(key)
        merge(raw, [override])
        if isinstance(before, dict) and isinstance(now := raw[key], dict):
            is_other = "source" in now and now["source"] != before.get("source")
            raw[key] = now if is_other else before | now
    return config_of(raw, f"config of {config.name}", overrides)


def _anchored(config: RunConfig) -> RunConfig:
    """Local paths made absolute: a run may be resumed from another folder."""
    collect = config.collect
    if isinstance(collect, DatasetSource):
        collect = msgspec.structs.replace(collect, root=_absolute(collect.root))
    ladder = tuple(
        msgspec.structs.replace(rung, init=_absolute(rung.init)) for rung in config.ladder
    )
    notify = config.notify
    if notify.command and "/" in notify.command[0]:
        program = _absolute(notify.command[0])
        notify = msgspec.structs.replace(notify, command=(program, *notify.command[1:]))
    executor = config.executor
    if executor.token_file:
        token = str(Path(executor.token_file).expanduser().absolute())
        executor = msgspec.structs.replace(executor, token_file=token)
    named = config.constitution
    rules = str(Path(named).expanduser().absolute()) if named else ""
    return msgspec.structs.replace(
        config,
        collect=collect,
        ladder=ladder,
        notify=notify,
        executor=executor,
        constitution=rules,
    )


def _absolute(name: str) -> str:
    """What is no local path, for instance a name on the hub, stays as it is."""
    path = Path(name).expanduser()
    return str(path.absolute()) if name and path.exists() else name


def check_workdir(workdir: Path) -> None:
    """Refuse a work folder that LeRobot's command line would misread."""
    if any(mark in str(workdir) for mark in (" #", ": ", "\n")):
        raise BadInput(
            f"workdir: LeRobot cannot read the path {str(workdir)!r}.",
            "Name one without ' #', ': ' and line breaks.",
        )


def _check(config: RunConfig) -> None:
    """What types alone cannot say."""
    if not _NAME.fullmatch(config.name):
        raise BadInput(
            f"name: {config.name!r} cannot name a run.",
            "Use up to 100 letters, digits, _, - and ., neither - nor . in front.",
        )
    if config.name in _RESERVED:
        raise BadInput(
            f"name: {config.name} cannot name a run: {_RESERVED[config.name]}.", "Use another name."
        )
    parse_device(config.device, "device")
    if not config.executor.is_here:
        require_address(config.executor.address)
        if config.device == AUTO:
            raise BadInput(
                "device: auto does not say which device the nodes of a cluster use.",
                "Name it: cpu or cuda.",
            )
    for number, rung in enumerate(config.ladder):
        if rung.rename_map and not rung.init:
            raise BadInput(
                f"ladder[{number}].rename_map: it needs a checkpoint to rename for.",
                "Give init, or leave rename_map out: a fresh policy takes the dataset's own names.",
            )
    if not config.evaluate.env:
        resolve_tasks(config.tasks, OWN_TASKS)
    _check_collect(config)
    require_families(config)
    if config.propose.model:
        ModelName.parse(config.propose.model)
    require_sendable(config.notify)
    require_trackers(config.track)
    if config.ledger:
        parse_url(config.ledger)
    require_seeds(config, None)
    for name, count, room in (
        ("gate.max_pairs", -(-config.gate.max_pairs // count_tasks(config)), PER_CYCLE),
        ("improve.episodes_per_task", 5 * config.improve.episodes_per_task, PER_CYCLE),
        ("evaluate.episodes_per_task", config.evaluate.episodes_per_task, PER_RUN),
    ):
        if count > room:
            raise BadInput(f"{name}: there are only {room} seeds for it.", "Ask for fewer.")


def _check_collect(config: RunConfig) -> None:
    """Where the data comes from, and whether there are seeds for it."""
    schedule = config.collect.episodes_per_task
    if isinstance(schedule, tuple):
        counts = [scheduled(schedule, cycle) for cycle in range(-1, len(schedule) + 1)]
        if sorted(set(counts)) != counts:
            raise BadInput("collect.episodes_per_task: the numbers must grow.")
    if isinstance(config.collect, ExpertGrowth):
        require_own_cameras(config.collect, config.evaluate.env, "collect.")
        if config.evaluate.env and config.improve.method != "none":
            raise BadInput(
                "improve.method: policies cannot make data in another environment yet.",
                "Use improve.method: none.",
            )
        if max_attempts(config.collect.episodes_per_task[-1]) > PER_CYCLE:
            raise BadInput(
                f"collect.episodes_per_task: there are only {PER_CYCLE} seeds for a cycle.",
                "Ask for fewer.",
            )
    elif config.improve.method != "none":
        raise BadInput(
            "improve.method: an existing dataset cannot be added to.", "Use collect.source: expert."
        )
