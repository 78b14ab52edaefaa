"""What is allowed beyond the lists, because the run's own config or a person's command names it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from lefleet.constitution.argv import flag_of
from lefleet.records import (
    CompareRequest,
    Corrections,
    DatasetRecord,
    DatasetSource,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    MixRecord,
    ProfileRequest,
    Record,
    Request,
    RunConfig,
    RunOrigin,
    TrainRequest,
)
from lefleet.records.border import Strict

PLUGIN_KEY = "discover_packages_path"
"""LeRobot imports the package that a flag with this in its key names."""
OWN_SIMULATION = "lefleet_metaworld"
"""Type of the environment that stages use where none is named."""


class Grants(Strict, frozen=True, kw_only=True):
    """Names that were given by a person when a run, a stage or a rollout began."""

    folders: tuple[str, ...] = ()
    """The run's own: data and checkpoints in them are its own, and it writes nowhere else."""
    environments: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    config_paths: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """LeRobot's, as --key=value."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Whole command lines."""
    webhook: bool = False


def of_config(config: RunConfig, workdir: Path, origin: RunOrigin | None = None) -> Grants:
    """What a run's config names, and the run that it started from."""
    collect, env = config.collect, config.evaluate.env
    datasets = [collect.repo_id, collect.root] if isinstance(collect, DatasetSource) else []
    checkpoints = [rung.init for rung in config.ladder]
    if origin is not None:
        datasets += [one.path for one in origin.data]
        checkpoints += [origin.checkpoint.path, origin.rung.init]
    extra = [flag for rung in config.ladder for flag in rung.extra_args]
    flags = [
        *(flag for rung in config.ladder for flag in named_flags("policy", rung.policy)),
        *named_flags("env", env),
        *extra,
    ]
    return Grants(
        folders=(str(workdir.absolute()),),
        environments=_unique([env.get("type", OWN_SIMULATION), *_values(flags, "env.type")]),
        datasets=_unique(datasets),
        checkpoints=_unique([*checkpoints, *_checkpoints_in(flags)]),
        plugins=_unique(plugins_in(flags)),
        config_paths=_unique(_values(flags, "config_path")),
        flags=_unique(map(_spelled, flags)),
        commands=(config.notify.command,) if config.notify.command else (),
        webhook=bool(config.notify.webhook),
    )


def of_request(request: Request, folder: Path) -> Grants:
    """What a person asks of one stage in `folder`."""
    flags: list[str] = []
    datasets: list[str] = []
    checkpoints: list[str] = []
    environments = [OWN_SIMULATION]
    match request:
        case ExistingDataset():
            datasets += [request.repo_id, request.root]
        case ExpertDemos():
            for name in request.add_to:
                datasets += [name, *_data_behind(name)]
            flags += named_flags("env", request.env)
            environments.append(request.env.get("type", OWN_SIMULATION))
        case TrainRequest():
            datasets += [request.dataset, *_data_behind(request.dataset)]
            checkpoints.append(request.init)
            flags += [*named_flags("policy", request.policy), *request.extra_args]
        case ImproveRequest():
            datasets += [request.demos, *_data_behind(request.demos)]
            checkpoints.append(request.checkpoint)
        case EvaluateRequest() | CompareRequest():
            flags += named_flags("env", request.env)
            environments.append(request.env.get("type", OWN_SIMULATION))
            checkpoints.append(request.checkpoint)
            if isinstance(request, CompareRequest):
                checkpoints.append(request.baseline)
        case Corrections() | ProfileRequest():
            checkpoints.append(request.checkpoint)
        case _:
            pass
    return Grants(
        folders=(str(folder.absolute()),),
        environments=_unique([*environments, *_values(flags, "env.type")]),
        datasets=_unique(datasets),
        checkpoints=_unique([*checkpoints, *_checkpoints_in(flags)]),
        plugins=_unique(plugins_in(flags)),
        config_paths=_unique(_values(flags, "config_path")),
        flags=_unique(map(_spelled, flags)),
    )


def _data_behind(folder: str) -> list[str]:
    """The dataset that the record of a stage's folder tells of, which may lie elsewhere."""
    try:
        record = msgspec.json.decode((Path(folder) / "record.json").read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return []
    data = record.dataset if isinstance(record, MixRecord) else record
    return [data.repo_id, data.root] if isinstance(data, DatasetRecord) else []


def _spelled(argument: str) -> str:
    """A flag as it is compared: some parsers take - for _ in its key."""
    flag = flag_of(argument)
    return f"--{flag[0]}={flag[1]}" if flag else argument


def named_flags(section: str, fields: Mapping[str, str]) -> list[str]:
    """Fields of a section as LeRobot's flags."""
    return [f"--{section}.{name}={value}" for name, value in fields.items()]


def plugins_in(arguments: Iterable[str]) -> list[str]:
    """Packages that LeRobot would import for these flags."""
    flags = (flag_of(argument) for argument in arguments)
    return [flag[1] for flag in flags if flag is not None and names_plugin(flag[0])]


def names_plugin(key: str) -> bool:
    """Whether a flag names code to import."""
    return PLUGIN_KEY in key or key.endswith(".hub_path")


def _checkpoints_in(arguments: Iterable[str]) -> list[str]:
    flags = (flag_of(argument) for argument in arguments)
    return [flag[1] for flag in flags if flag is not None and names_checkpoint(flag[0])]


def names_checkpoint(key: str) -> bool:
    """Whether a flag names weights to load."""
    return key.endswith((".path", ".pretrained_path", ".pretrained_name_or_path"))


def _values(arguments: Iterable[str], key: str) -> list[str]:
    flags = (flag_of(argument) for argument in arguments)
    return [flag[1] for flag in flags if flag is not None and flag[0] == key]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
