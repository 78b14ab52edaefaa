"""LeFleet: LeRobot robots that improve themselves.

This package is the loop and its stages: typed requests in, typed records out.

    from lefleet import ExpertDemos, TrainRequest, run_stage
    demos = run_stage(ExpertDemos(tasks=("easy3",), episodes_per_task=8), "runs/a/collect")

Importing it is cheap: requests and records load when they are first named, and torch, LeRobot and
MuJoCo when a stage runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lefleet.errors import BadInput, LeFleetError, StageFailed

if TYPE_CHECKING:
    from lefleet.records import (
        CheckpointContract,
        CheckpointRecord,
        CompareRequest,
        ComparisonRecord,
        Corrections,
        DatasetRecord,
        EnvelopeRecord,
        EpisodeRecord,
        EvaluateRequest,
        EvaluationRecord,
        ExistingDataset,
        ExpertDemos,
        ImproveRequest,
        MixRecord,
        ProfileRequest,
        TrainRequest,
    )
    from lefleet.stages import run_stage

__version__ = "0.1.0"

__all__ = [
    "BadInput",
    "CheckpointContract",
    "CheckpointRecord",
    "CompareRequest",
    "ComparisonRecord",
    "Corrections",
    "DatasetRecord",
    "EnvelopeRecord",
    "EpisodeRecord",
    "EvaluateRequest",
    "EvaluationRecord",
    "ExistingDataset",
    "ExpertDemos",
    "ImproveRequest",
    "LeFleetError",
    "MixRecord",
    "ProfileRequest",
    "StageFailed",
    "TrainRequest",
    "run_stage",
]


def __getattr__(name: str) -> Any:
    """A public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'lefleet' has no attribute {name!r}")
    home = "lefleet.stages" if name == "run_stage" else "lefleet.records"
    globals()[name] = getattr(import_module(home), name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
