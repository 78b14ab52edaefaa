"""What is known of a run's trainings before it starts, and whether they can work."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lefleet.errors import BadInput
from lefleet.records import DatasetSource, RunConfig, Rung, TrainRequest
from lefleet.records.checkpoint import Normalisation
from lefleet.stages.backbone import needed_weights, require_weights
from lefleet.stages.cameras import asked_cameras
from lefleet.stages.contract import INFO, is_camera, policy_features, read_info, simulated_info
from lefleet.stages.extras import require_policy
from lefleet.stages.normalisation import choose_mapping, require_family
from lefleet.stages.references import checkpoint_folder, read_policy_config
from lefleet.stages.state_only import missing_input, needs_step, require_inputs_of
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
    info, _ = _known_data(config)
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
    info, where = _known_data(config)
    if info is None:
        return
    if folder:
        require_inputs(folder, info["features"], rung, field, where)
    checkpoint = read_policy_config(folder) if folder else None
    lacking = missing_input(rung.policy_type, info["features"]) if not folder else None
    if lacking is not None and not isinstance(source, DatasetSource):
        raise BadInput(
            f"{field}.policy_type: {lacking[0]}", f"{lacking[1]} Or add collect.cameras."
        )
    if isinstance(source, DatasetSource):
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


def _known_data(config: RunConfig) -> tuple[dict[str, Any] | None, str]:
    """meta/info.json of the data, also where LeFleet's simulation has still to make it, and what it
    is called; None where it is not on this machine, or of another environment."""
    source = config.collect
    if isinstance(source, DatasetSource):
        root = Path(source.root).expanduser()
        is_here = source.root and (root / INFO).is_file()
        return read_info(root) if is_here else None, source.root
    if config.evaluate.env:
        return None, ""
    where = "collect.cameras" if source.cameras else "LeFleet's simulation"
    return simulated_info(asked_cameras(source)), where
