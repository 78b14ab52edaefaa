"""Which of LeRobot's normalisations a training uses, and why.

Data of LeFleet's simulation is scaled already. All other data gets the mapping of its policy family
and the dataset's own statistics, unless a checkpoint to continue from or the user says otherwise.
"""

import json
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from typing import Any, NamedTuple, Protocol

import msgspec
import yaml

from lefleet.errors import BadInput
from lefleet.records.checkpoint import Normalisation
from lefleet.stages.contract import is_camera, is_simulated, policy_features
from lefleet.stages.state_only import needs_step

STATE, ENV, ACTION, VISUAL = "STATE", "ENV", "ACTION", "VISUAL"
IDENTITY = "IDENTITY"
STATISTICS = {
    IDENTITY: (),
    "MEAN_STD": ("mean", "std"),
    "MIN_MAX": ("min", "max"),
    "QUANTILES": ("q01", "q99"),
    "QUANTILE10": ("q10", "q90"),
}
"""LeRobot's modes, and the statistics that each of them reads."""
SETTING = "normalization_mapping"
_PLUGINS = "lerobot_policy_"
_OWN_PLUGIN = "lerobot_policy_lefleet"


def _modes(state: str, action: str, visual: str = IDENTITY, **more: str) -> dict[str, str]:
    return {VISUAL: visual, STATE: state, ACTION: action, **more}


FAMILIES: dict[str, dict[str, str]] = {
    "act": _modes("MEAN_STD", "MEAN_STD", "MEAN_STD"),
    "diffusion": _modes("MIN_MAX", "MIN_MAX", "MEAN_STD"),
    "eo1": _modes("MEAN_STD", "MEAN_STD"),
    "evo1": _modes("MIN_MAX", "MIN_MAX"),
    "fastwam": _modes("MEAN_STD", "MEAN_STD"),
    "gaussian_actor": _modes("MIN_MAX", "MIN_MAX", "MEAN_STD", ENV="MIN_MAX"),
    "groot": _modes(IDENTITY, IDENTITY),
    "lingbot_va": _modes(IDENTITY, IDENTITY),
    "molmoact2": _modes("QUANTILES", "QUANTILES"),
    "multi_task_dit": _modes("MIN_MAX", "MIN_MAX", "MEAN_STD"),
    "pi0": _modes("MEAN_STD", "MEAN_STD"),
    "pi05": _modes("QUANTILES", "QUANTILES"),
    "pi0_fast": _modes("MEAN_STD", "MEAN_STD"),
    "smolvla": _modes("MEAN_STD", "MEAN_STD"),
    "tdmpc": _modes(IDENTITY, "MIN_MAX", ENV=IDENTITY),
    "vla_jepa": _modes("MEAN_STD", "MIN_MAX"),
    "vqbet": _modes("MIN_MAX", "MIN_MAX"),
    "wall_x": _modes("MEAN_STD", "MEAN_STD"),
    "xvla": _modes(IDENTITY, IDENTITY),
}
"""The default mapping of every family of LeRobot 0.6.1. Those with IDENTITY for the state scale it
themselves, or are meant for values as they are."""


class PolicySettings(Protocol):
    """What a training says of its policy: a `TrainRequest`, or a rung of a run."""

    @property
    def policy_type(self) -> str: ...
    @property
    def policy(self) -> dict[str, str]: ...
    @property
    def extra_args(self) -> tuple[str, ...]: ...


class ChosenMapping(NamedTuple):
    """What the policy will use, and what LeRobot must be told so that it does."""

    mapping: dict[str, str]
    reason: str
    flag: str = ""
    """Value of --policy.normalization_mapping; empty where LeRobot has it already."""
    is_known: bool = True
    """False where only LeRobot, or a plugin, knows the mapping."""


def choose_mapping(
    settings: PolicySettings, info: Mapping[str, Any], checkpoint: Mapping[str, Any] | None
) -> ChosenMapping:
    """The mapping for data with this `info`; `checkpoint` is the config of one to continue from."""
    if given := _given(settings):
        return ChosenMapping(_parse(given), f"set by policy.{SETTING}")
    if checkpoint is not None:
        found = checkpoint.get(SETTING)
        if not isinstance(found, dict):
            return ChosenMapping({}, "that of the checkpoint to continue from", is_known=False)
        return ChosenMapping(found, "that of the checkpoint to continue from")
    family = settings.policy_type
    if family not in FAMILIES:
        return ChosenMapping(
            {}, f"that of the family {family}, which a plugin brings", is_known=False
        )
    default = FAMILIES[family]
    kinds = {kind_of(key, feature) for key, feature in policy_features(info).items()}
    if is_simulated(info):
        if family != "act" or VISUAL in kinds:
            reason = f"the default of {family}; the simulation scales its environment state itself"
            return ChosenMapping(default, reason)
        mapping = dict.fromkeys((STATE, ENV, ACTION, VISUAL), IDENTITY)
        reason = "data of the simulation, which scales its vectors itself"
        return ChosenMapping(mapping, reason, _flag(mapping))
    reason = f"the default of {family}, with the statistics of the dataset"
    if ENV in kinds and ENV not in default:
        mapping = {**default, ENV: default[STATE]}
        reason += f"; the environment state as the state ({default[STATE]})"
        return ChosenMapping(mapping, reason, _flag(mapping))
    if needs_step(family, info["features"]):
        reason += "; the environment state is a copy of the normalised state"
        return ChosenMapping({**default, ENV: default[STATE]}, reason)
    return ChosenMapping(default, reason)


def as_trained(planned: Normalisation, config: Mapping[str, Any]) -> Normalisation:
    """With the mapping in a trained policy's config. It differs from the planned one where a plugin
    brings it, or where another version began the training."""
    mapping = config.get(SETTING)
    if not isinstance(mapping, dict):
        return planned
    is_as_planned = planned.mapping.items() <= mapping.items()
    reason = planned.reason if is_as_planned else "that with which the training began"
    return msgspec.structs.replace(planned, mapping=mapping, reason=reason)


def kind_of(key: str, feature: Mapping[str, Any]) -> str:
    """LeRobot's type of a feature of a dataset."""
    if is_camera(feature):
        return VISUAL
    if key == "observation.environment_state":
        return ENV
    return STATE if key.startswith("observation") else ACTION


def require_family(settings: PolicySettings) -> None:
    """Raise BadInput where LeRobot has no policy of this name, and no plugin may bring it."""
    if settings.policy_type in FAMILIES or _names_plugins(settings.extra_args):
        return
    if any(_is_foreign_plugin(one.metadata["Name"] or "") for one in distributions()):
        return
    raise BadInput(
        f"policy_type: LeRobot has no policy family called {settings.policy_type!r}.",
        f"It has {', '.join(FAMILIES)}. For a plugin's family, give the package as a further flag: "
        "-- --policy.discover_packages_path=PACKAGE",
    )


def _names_plugins(arguments: Iterable[str]) -> bool:
    return any("discover_packages_path=" in argument for argument in arguments)


def _is_foreign_plugin(distribution: str) -> bool:
    return distribution.startswith(_PLUGINS) and distribution != _OWN_PLUGIN


def flag_value(settings: PolicySettings, name: str) -> str | None:
    """What the user says of a policy's setting, in `policy` or in `extra_args`."""
    for argument in settings.extra_args:
        key, equals, value = argument.removeprefix("--").partition("=")
        if equals and key.replace("-", "_") == f"policy.{name}":
            return value
    return settings.policy.get(name)


def _given(settings: PolicySettings) -> str:
    return flag_value(settings, SETTING) or ""


def _parse(text: str) -> dict[str, str]:
    """The user's mapping; LeRobot takes YAML."""
    try:
        mapping = msgspec.convert(yaml.safe_load(text), dict[str, str])
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise BadInput(f"policy.{SETTING}: {text!r} is no mapping.", _REMEDY) from error
    for kind, mode in mapping.items():
        if kind not in (STATE, ENV, ACTION, VISUAL):
            raise BadInput(f"policy.{SETTING}: {kind!r} is no type of feature.", _REMEDY)
        if mode not in STATISTICS:
            raise BadInput(f"policy.{SETTING}: {mode!r} is no mode of LeRobot.", _REMEDY)
    return mapping


_REMEDY = (
    f"Name {', '.join(STATISTICS)} for each of {STATE}, {ENV}, {ACTION}, {VISUAL}, for instance "
    '\'{"STATE": "MEAN_STD", "ENV": "MEAN_STD", "ACTION": "MEAN_STD", "VISUAL": "MEAN_STD"}\'.'
)


def _flag(mapping: Mapping[str, str]) -> str:
    return json.dumps(dict(mapping))
