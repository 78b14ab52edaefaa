"""Run one stage in its folder."""

from importlib import import_module
from pathlib import Path
from typing import Any, overload

from lefleet.errors import BadInput
from lefleet.records import (
    CheckpointRecord,
    CollectRequest,
    CompareRequest,
    ComparisonRecord,
    DatasetRecord,
    EvaluateRequest,
    EvaluationRecord,
    ImproveRequest,
    MixRecord,
    Record,
    Request,
    TrainRequest,
    validated,
)
from lefleet.stages.folder import Progress, StageFolder, committed, silent

_BODIES: dict[type, str] = {
    TrainRequest: "train",
    EvaluateRequest: "evaluate",
    CompareRequest: "compare",
    ImproveRequest: "improve",
}


@overload
def run_stage(
    request: CollectRequest, folder: str | Path, progress: Progress = ...
) -> DatasetRecord: ...
@overload
def run_stage(
    request: TrainRequest, folder: str | Path, progress: Progress = ...
) -> CheckpointRecord: ...
@overload
def run_stage(
    request: EvaluateRequest, folder: str | Path, progress: Progress = ...
) -> EvaluationRecord: ...
@overload
def run_stage(
    request: CompareRequest, folder: str | Path, progress: Progress = ...
) -> ComparisonRecord: ...
@overload
def run_stage(
    request: ImproveRequest, folder: str | Path, progress: Progress = ...
) -> MixRecord: ...
def run_stage(request: Request, folder: str | Path, progress: Progress = silent) -> Record:
    """Carry out `request` in `folder` and return its record.

    Safe to call again: a committed record is returned at once, an interrupted stage is resumed.
    """
    request = validated(request)
    path = Path(folder).resolve()
    if (record := committed(path, request)) is not None:
        return record
    with StageFolder(path, request) as stage:
        if (record := stage.record()) is None:
            try:
                record = _body(request)(request, stage, progress)
            except BadInput:
                if stage.is_new:
                    stage.discard()
                raise
            stage.commit(record)
        return record


def _body(request: Request) -> Any:
    """The function that does the work; its module is loaded now, for it may import LeRobot."""
    name = _BODIES.get(type(request), "collect")
    return getattr(import_module(f"lefleet.stages.{name}"), name)
