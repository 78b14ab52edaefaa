"""A fresh policy for data without cameras: random weights, and a step that LeRobot would not add.

LeRobot makes the preprocessor of a new policy itself and leaves no place for another step, but it
takes the preprocessor of a policy folder as it is. So the folder is made here, before the training,
and the training starts from it.
"""

import shutil
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import draccus
import torch
from lerobot.configs import FeatureType, NormalizationMode, PolicyFeature, PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.processor import NormalizerProcessorStep
from lerobot.utils.constants import OBS_ENV_STATE, OBS_STATE
from lerobot.utils.feature_utils import dataset_to_policy_features

from lefleet.errors import BadInput
from lerobot_policy_lefleet import EnvironmentStateStep

_NOT_OF_THE_CONFIG = ("path", "type", "device", "push_to_hub")


def write_policy(
    folder: Path, policy_type: str, argv: Iterable[str], features: Mapping[str, Any], seed: int
) -> None:
    """A policy for a dataset's `features`, with the settings of a lerobot-train command line."""
    config = _parsed(policy_type, argv)
    known = dataset_to_policy_features(dict(features))
    config.output_features = {k: v for k, v in known.items() if v.type is FeatureType.ACTION}
    config.input_features = {k: v for k, v in known.items() if k not in config.output_features}
    state = config.input_features[OBS_STATE]
    config.input_features[OBS_ENV_STATE] = PolicyFeature(FeatureType.ENV, state.shape)
    modes = config.normalization_mapping
    # The step copies the normalised state: the entry says what the policy sees.
    modes["ENV"] = modes.get("STATE", NormalizationMode.IDENTITY)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            policy = get_policy_class(policy_type)(config)
        except (ValueError, TypeError, AssertionError, RuntimeError) as error:
            raise _refused(error) from error
    before, after = make_pre_post_processors(config)
    kinds = [type(step) for step in before.steps]
    before.steps.insert(kinds.index(NormalizerProcessorStep) + 1, EnvironmentStateStep())
    if folder.exists():
        shutil.rmtree(folder)
    for part in (policy, before, after):
        part.save_pretrained(folder)


def _parsed(policy_type: str, argv: Iterable[str]) -> Any:
    """The config that lerobot-train would make of its `--policy.` flags."""
    flags = [word.removeprefix("--policy.") for word in argv if word.startswith("--policy.")]
    settings = [f"--{flag}" for flag in flags if flag.partition("=")[0] not in _NOT_OF_THE_CONFIG]
    said = StringIO()
    try:
        with redirect_stderr(said):
            return draccus.parse(
                PreTrainedConfig.get_choice_class(policy_type), args=[*settings, "--device=cpu"]
            )
    except SystemExit as error:
        # The parser of draccus exits where a flag is unknown; its last line says which.
        raise _refused(said.getvalue().rpartition("error: ")[2]) from error
    except Exception as error:
        # Draccus says where something is wrong; what is wrong it may keep as the cause.
        cause = error.__cause__ or error.__context__
        raise _refused(f"{error} {cause}" if cause else error) from error


def _refused(error: object) -> BadInput:
    return BadInput(f"policy: LeRobot refuses these settings: {' '.join(str(error).split())}")
