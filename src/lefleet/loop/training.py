"""What is known of a run's trainings before it starts, and whether they can work."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lefleet.errors import BadInput
from lefleet.records import DatasetSource, ExpertGrowth, RunConfig, Rung, TrainRequest
from lefleet.records.checkpoint import Normalisation
from lefleet.stages.backbone import needed_weights, require_weights
from lefleet.stages.cameras import asked_cameras
from lefleet.stages.contract import INFO, is_camera, policy_features, read_info, simulated_info
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
    info: dict[str, Any] | None
    if isinstance(config.collect, DatasetSource):
        info = _info(config.collect)
    elif config.evaluate.env:
        return KnownTraining()
    else:
        info = simulated_info(asked_cameras(config.collect))
    if info is None:
        return KnownTraining()
    is_state_only = not any(map(is_camera, policy_features(info).values()))
    if request.init:
        return KnownTraining(is_state_only)
    chosen = choose_mapping(request, info, None)
    known = Normalisation(mapping=chosen.mapping, reason=chosen.reason)
    is_made = needs_step(request.policy_type, info["features"])
    return KnownTraining(is_state_only, chosen.flag, known.sentence(), is_made)


def require_trainable(config: RunConfig) -> None:
    """Raise BadInput where a training of the run is known to fail."""
    for number, rung in enumerate(config.ladder):
        if not rung.init:
            with _named(f"ladder[{number}]"):
                require_family(rung)
        if isinstance(config.collect, DatasetSource):
            _require_data(config.collect, rung, f"ladder[{number}]")
        elif not config.evaluate.env:
            _require_simulated(config.collect, rung, f"ladder[{number}]")


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Put where a rung is in front of what is said of its fields."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{place}.{error.problem}", error.remedy) from error


def require_installed(config: RunConfig) -> None:
    """Raise BadInput where a policy of the run needs a library that this machine does not have."""
    for number, rung in enumerate(config.ladder):
        installed_family(rung, f"ladder[{number}]")


def installed_family(rung: Rung, field: str) -> str:
    """The policy family of a rung; BadInput where a library that it needs is not installed. A
    checkpoint on the hub is taken to be of the family that is named."""
    folder = checkpoint_folder(rung.init, f"{field}.init") if rung.init else None
    if folder is None:
        require_policy(rung.policy_type, f"{field}.policy_type")
        return rung.policy_type
    family = str(read_policy_config(folder).get("type", ""))
    require_policy(family, f"{field}.init")
    return family


def _require_data(source: DatasetSource, rung: Rung, place: str) -> None:
    info = _info(source)
    checkpoint = None
    if rung.init:
        folder = checkpoint_folder(rung.init, f"{place}.init")
        if folder is None:  # On the hub: its normalisation is not known here.
            return
        checkpoint = read_policy_config(folder)
        if info is not None:
            with _named(place):
                require_inputs_of(folder, info["features"], rung.rename_map, source.root)
    if info is not None:
        assess(rung, info, Path(source.root).expanduser(), checkpoint).require("collect.root")
        require_weights(needed_weights(rung, info, checkpoint))


def _require_simulated(source: ExpertGrowth, rung: Rung, place: str) -> None:
    """Of data with cameras that is not collected yet; without, a policy needs nothing beside it."""
    if not source.cameras:
        return
    info = simulated_info(asked_cameras(source))
    folder = checkpoint_folder(rung.init, f"{place}.init") if rung.init else None
    if rung.init and folder is None:  # On the hub: what it needs is not known here.
        return
    with _named(place):
        if folder is not None:
            require_inputs_of(folder, info["features"], rung.rename_map, "collect.cameras")
        checkpoint = read_policy_config(folder) if folder else None
        require_weights(needed_weights(rung, info, checkpoint))


def _info(source: DatasetSource) -> dict[str, Any] | None:
    """meta/info.json of the data; None where it is not on this machine."""
    root = Path(source.root).expanduser()
    return read_info(root) if source.root and (root / INFO).is_file() else None
