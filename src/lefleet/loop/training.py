"""What is known of a run's trainings before it starts, and whether they can work."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lefleet.errors import BadInput
from lefleet.records import DatasetSource, RunConfig, Rung, TrainRequest
from lefleet.records.checkpoint import Normalisation
from lefleet.stages.backbone import needed_weights, require_weights
from lefleet.stages.contract import INFO, SIMULATED_INFO, is_camera, policy_features, read_info
from lefleet.stages.extras import require_policy
from lefleet.stages.normalisation import choose_mapping, require_family
from lefleet.stages.references import checkpoint_folder, read_policy_config
from lefleet.stages.state_only import needs_step, require_inputs_of
from lefleet.stages.suitability import assess


class KnownTraining(NamedTuple):
    """What can be said of a training whose data is not collected yet."""

    is_state_only: bool = False
    flag: str = ""
    """Value of --policy.normalization_mapping; empty where LeRobot's own is meant, or unknown."""
    words: str = ""
    """About the normalisation, for a person; empty where nothing is known."""
    has_fresh_policy: bool = False
    """Whether the stage makes the policy that LeRobot starts from."""


def training_of(config: RunConfig, request: TrainRequest) -> KnownTraining:
    """Of data on this machine; a dataset on the hub is not looked at, nor is another environment
    than LeFleet's made for this."""
    info: dict[str, Any] | None = SIMULATED_INFO
    if isinstance(config.collect, DatasetSource):
        info = _info(config.collect)
    elif config.evaluate.env:
        return KnownTraining()
    if info is None:
        return KnownTraining()
    is_state_only = not any(map(is_camera, policy_features(info).values()))
    if request.init:
        return KnownTraining(is_state_only)
    chosen = choose_mapping(request, info, None)
    known = Normalisation(mapping=chosen.mapping, reason=chosen.reason)
    is_made = needs_step(request.policy_type, info["features"])
    return KnownTraining(is_state_only, chosen.flag, known.sentence(), is_made)


def require_families(config: RunConfig) -> None:
    """Raise BadInput where a rung names a policy that cannot be trained with these settings,
    whatever the data is."""
    for number, rung in enumerate(config.ladder):
        if not rung.init:
            with _named(f"ladder[{number}]"):
                require_family(rung)


def require_trainable(config: RunConfig) -> None:
    """Raise BadInput where a training of the run is known to fail: its data does not suit the
    policy, or, which is easier to mend, a library is missing."""
    for number, rung in enumerate(config.ladder):
        require_suitable(config, rung, f"ladder[{number}]")
    for number, rung in enumerate(config.ladder):
        installed_family(rung, f"ladder[{number}]")


def require_suitable(config: RunConfig, rung: Rung, field: str) -> None:
    """Raise BadInput where the data of the run, as far as it is known before anything is
    collected, cannot train this rung."""
    source = config.collect
    folder = checkpoint_folder(rung.init, f"{field}.init") if rung.init else None
    if rung.init and folder is None:  # On the hub: what it takes is not known here.
        return
    if not isinstance(source, DatasetSource):
        if folder and not config.evaluate.env:
            features = SIMULATED_INFO["features"]
            require_inputs(folder, features, rung, field, "LeFleet's simulation")
        return
    info = _info(source)
    if info is None:
        return
    if folder:
        require_inputs(folder, info["features"], rung, field, source.root)
    checkpoint = read_policy_config(folder) if folder else None
    assess(rung, info, Path(source.root).expanduser(), checkpoint).require("collect.root")
    with _named(field):
        require_weights(needed_weights(rung, info, checkpoint))


def require_inputs(
    checkpoint: Path, features: Mapping[str, Any], rung: Rung, field: str, where: str
) -> None:
    """Raise BadInput where the checkpoint that a rung continues from takes what there is not."""
    with _named(field):
        require_inputs_of(checkpoint, features, rung.rename_map, where)


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Put where a rung is in front of what is said of its fields."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{place}.{error.problem}", error.remedy) from error


def family_of(rung: Rung, field: str) -> tuple[str, str]:
    """The policy family of a rung, and the field that tells it. A checkpoint on the hub is taken
    to be of the family that is named."""
    folder = checkpoint_folder(rung.init, f"{field}.init") if rung.init else None
    if folder is None:
        return rung.policy_type, f"{field}.policy_type"
    return str(read_policy_config(folder).get("type", "")), f"{field}.init"


def installed_family(rung: Rung, field: str) -> str:
    """The policy family of a rung; NotInstalled where a library that it needs is missing."""
    family, told_by = family_of(rung, field)
    require_policy(family, told_by)
    return family


def _info(source: DatasetSource) -> dict[str, Any] | None:
    """meta/info.json of the data; None where it is not on this machine."""
    root = Path(source.root).expanduser()
    return read_info(root) if source.root and (root / INFO).is_file() else None
