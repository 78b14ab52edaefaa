"""How episodes of the simulation lie in a dataset."""

from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, STATE_NAMES

ROBOT_TYPE = "metaworld_sawyer"

FEATURES = {
    key: {"dtype": "float32", "shape": (len(names),), "names": list(names)}
    for key, names in (
        ("action", ACTION_NAMES),
        ("observation.state", STATE_NAMES),
        ("observation.environment_state", ENVIRONMENT_NAMES),
    )
}
