"""A processor step for data without cameras: the robot's state serves as the environment's too.

ACT and diffusion want an image or `observation.environment_state` beside the state. Somebody's arm
may have neither. The step is a part of such a checkpoint's preprocessor, so every program that
loads the checkpoint makes the input in the same way, and robots send their state only.
"""

from typing import Any

from lerobot.configs import FeatureType, PipelineFeatureType, PolicyFeature
from lerobot.processor import ObservationProcessorStep, ProcessorStepRegistry
from lerobot.utils.constants import OBS_ENV_STATE, OBS_STATE

ENVIRONMENT_STEP = "lefleet_environment_state"
"""Its name in `policy_preprocessor.json`."""


@ProcessorStepRegistry.register(name=ENVIRONMENT_STEP)
class EnvironmentStateStep(ObservationProcessorStep):
    """Copies `observation.state` to `observation.environment_state`.

    It stands behind the normaliser: the copy has the statistics of the state, whichever dataset
    they come from. LeRobot's training replaces a normaliser's statistics by those of its dataset,
    which has none of an environment state.
    """

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        return {**observation, OBS_ENV_STATE: observation[OBS_STATE]}

    def transform_features(
        self, features: dict[PipelineFeatureType, dict[str, PolicyFeature]]
    ) -> dict[PipelineFeatureType, dict[str, PolicyFeature]]:
        observed = features[PipelineFeatureType.OBSERVATION]
        made = PolicyFeature(FeatureType.ENV, observed[OBS_STATE].shape)
        return {**features, PipelineFeatureType.OBSERVATION: {**observed, OBS_ENV_STATE: made}}
