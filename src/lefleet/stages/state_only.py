"""Whether a policy can be trained on the inputs that a dataset has: cameras, state, neither."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lefleet.errors import BadInput
from lefleet.stages.contract import is_camera
from lefleet.stages.references import made_by, read_policy_config

STATE = "observation.state"
ENVIRONMENT = "observation.environment_state"

_TAKE_AN_ENVIRONMENT = frozenset({"act", "diffusion"})
"""They want an image or the environment state, and the latter may be made from the state."""
_NEED_A_CAMERA = frozenset(
    (
        *("eo1", "evo1", "fastwam", "groot", "lingbot_va", "molmoact2", "multi_task_dit", "pi0"),
        *("pi05", "pi0_fast", "smolvla", "vla_jepa", "vqbet", "wall_x", "xvla"),
    )
)


def needs_step(policy_type: str, features: Mapping[str, Any]) -> bool:
    """Whether a fresh policy's preprocessor has to make the environment state from the state."""
    return (
        policy_type in _TAKE_AN_ENVIRONMENT
        and not _cameras(features)
        and ENVIRONMENT not in features
    )


def missing_input(policy_type: str, features: Mapping[str, Any]) -> tuple[str, str] | None:
    """Why a fresh policy of this family cannot be trained on these features, and what helps."""
    if policy_type in _NEED_A_CAMERA and not _cameras(features):
        return (
            f"{policy_type} needs a camera, and the dataset has {_listed(features)}.",
            "Use act or diffusion, which train on a state alone.",
        )
    if needs_step(policy_type, features) and STATE not in features:
        return (
            f"{policy_type} needs {STATE} or a camera, and the dataset has {_listed(features)}.",
            f"Record the robot's joints as {STATE}.",
        )
    if policy_type == "tdmpc" and "next.reward" not in features:
        return (
            "tdmpc learns from rewards, and the dataset has no next.reward.",
            "Use act or diffusion.",
        )
    return None


def require_inputs_of(
    checkpoint: Path, features: Mapping[str, Any], renamed: Mapping[str, str], where: str
) -> None:
    """Raise BadInput where a checkpoint takes a vector that the dataset does not have.

    Sizes matter to small policies only: large ones pad their vectors.
    """
    config = read_policy_config(checkpoint)
    here = {renamed.get(key, key): list(one["shape"]) for key, one in features.items()}
    made = made_by(checkpoint)
    is_exact = config["type"] in _TAKE_AN_ENVIRONMENT
    for key, feature in (config.get("input_features") or {}).items():
        if feature["type"] == "VISUAL" or key in made:
            continue
        size = list(feature["shape"])
        if key not in here or (is_exact and here[key] != size):
            has = f"it with shape {here[key]}" if key in here else "none"
            raise BadInput(
                f"init: the policy takes {key} with shape {size}, and {where} has {has}.",
                "Continue from a checkpoint of such data, or leave init out.",
            )


def _cameras(features: Mapping[str, Any]) -> list[str]:
    return [key for key, feature in features.items() if is_camera(feature)]


def _listed(features: Mapping[str, Any]) -> str:
    observed = [key for key in features if key.startswith("observation.")]
    return f"only {', '.join(observed)}" if observed else "no observation"
