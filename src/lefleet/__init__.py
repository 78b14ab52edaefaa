"""LeFleet: LeRobot robots that improve themselves.

This package is the loop and its stages: typed requests in, typed records out.

    from lefleet import ExpertDemos, TrainRequest, run_stage
    demos = run_stage(ExpertDemos(tasks=("easy3",), episodes_per_task=8), "runs/a/collect")

Importing it is cheap: torch, LeRobot and MuJoCo load only when a stage runs.
"""

from lefleet.errors import BadInput, LeFleetError, StageFailed
from lefleet.records import (
    CheckpointContract,
    CheckpointRecord,
    CompareRequest,
    ComparisonRecord,
    Corrections,
    DatasetRecord,
    EpisodeRecord,
    EvaluateRequest,
    EvaluationRecord,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    MixRecord,
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
    "EpisodeRecord",
    "EvaluateRequest",
    "EvaluationRecord",
    "ExistingDataset",
    "ExpertDemos",
    "ImproveRequest",
    "LeFleetError",
    "MixRecord",
    "StageFailed",
    "TrainRequest",
    "run_stage",
]
