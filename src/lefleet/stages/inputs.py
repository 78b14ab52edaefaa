"""Can the simulation feed this policy? Asked before anything is started."""

from pathlib import Path

import msgspec

from lefleet.errors import BadInput
from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, STATE_NAMES
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
