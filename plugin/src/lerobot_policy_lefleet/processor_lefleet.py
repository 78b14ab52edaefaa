"""Processors that leave everything as it is: the server runs the checkpoint's own."""

from typing import Any

from lerobot.processor import (
    DeviceProcessorStep,
    RenameObservationsProcessorStep,
    make_policy_processor_pipelines,
)

from lerobot_policy_lefleet.configuration_lefleet import LefleetConfig


def make_lefleet_pre_post_processors(
    config: LefleetConfig,
    dataset_stats: Any = None,  # noqa: ARG001 - LeRobot passes it by name
) -> tuple[Any, Any]:
    """Two steps without effect, because lerobot-eval overrides them by name in saved pipelines."""
    return make_policy_processor_pipelines(
        input_steps=[
            RenameObservationsProcessorStep(rename_map={}),
            DeviceProcessorStep(device=config.device),
        ],
        output_steps=[],
    )
