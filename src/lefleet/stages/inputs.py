"""Do policy, data and simulation fit together? Asked before anything is started."""

from pathlib import Path

import msgspec

from lefleet.errors import BadInput
from lefleet.records import DatasetRecord
from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, FPS, STATE_NAMES
from lefleet.stages.contract import read_info
from lefleet.stages.references import CheckpointReference

_OFFERED = {
    "observation.state": [len(STATE_NAMES)],
    "observation.environment_state": [len(ENVIRONMENT_NAMES)],
}
_NOT_OURS = "Only data of lefleet's simulation can be added to."
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
    if info["fps"] != FPS:
        raise BadInput(
            f"{field}: {dataset.root} has {info['fps']} fps, the simulation {FPS}.", _NOT_OURS
        )
    for key, shape in (_OFFERED | _TAKEN).items():
        found = info["features"].get(key, {}).get("shape")
        if found != shape:
            raise BadInput(
                f"{field}: {key} of {dataset.root} has shape {found}, the simulation's {shape}.",
                _NOT_OURS,
            )
