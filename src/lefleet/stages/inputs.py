"""Do policy, data and simulation fit together? Asked before anything is started."""

from pathlib import Path
from typing import Any

import msgspec

from lefleet.errors import BadInput
from lefleet.records import DatasetRecord
from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, FPS, STATE_NAMES
from lefleet.stages.contract import read_info
from lefleet.stages.layout import FEATURES, ROBOT_TYPE
from lefleet.stages.references import CheckpointReference

_OFFERED = {
    "observation.state": [len(STATE_NAMES)],
    "observation.environment_state": [len(ENVIRONMENT_NAMES)],
}
_TAKEN = {"action": [len(ACTION_NAMES)]}


def require_simulable(checkpoint: CheckpointReference, field: str) -> None:
    """Raise BadInput naming what the policy wants and the simulation does not have."""
    config = msgspec.json.decode((Path(checkpoint.path) / "config.json").read_bytes())
    for side, known in (("input_features", _OFFERED), ("output_features", _TAKEN)):
        for key, feature in (config.get(side) or {}).items():
            if known.get(key) != feature["shape"]:
                raise BadInput(
                    f"{field}: the policy's {key} has shape {feature['shape']}, the simulation's "
                    f"{known.get(key, 'does not exist')}.",
                    "Use a policy trained on data of lefleet's simulation.",
                )


def require_same_shape(dataset: DatasetRecord, field: str) -> None:
    """Raise BadInput where episodes of the simulation cannot be merged into `dataset`."""
    info = read_info(dataset)
    ours = {"fps": FPS, "robot_type": ROBOT_TYPE}
    differing = [name for name, value in ours.items() if info.get(name) != value]
    features = {
        k: v for k, v in info["features"].items() if k.startswith(("observation.", "action"))
    }
    differing += [key for key in FEATURES.keys() | features.keys() if not _is_same(features, key)]
    if differing:
        raise BadInput(
            f"{field}: {dataset.root} differs from the simulation in {', '.join(differing)}.",
            "Only data of lefleet's simulation can be added to.",
        )


def _is_same(features: dict[str, Any], key: str) -> bool:
    """Whether a dataset's feature is the simulation's: kind, size and the name of every column."""
    theirs, ours = features.get(key), FEATURES.get(key)
    if theirs is None or ours is None:
        return False
    return all(theirs[part] == _plain(ours[part]) for part in ("dtype", "shape", "names"))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
