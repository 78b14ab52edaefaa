"""Run one stage in its folder."""

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

    Safe to call again: a committed record is returned at once, an interrupted stage goes on.
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
    match request:
        case TrainRequest():
            from lefleet.stages.train import train

            return train
        case EvaluateRequest():
            from lefleet.stages.evaluate import evaluate

            return evaluate
        case CompareRequest():
            from lefleet.stages.compare import compare

            return compare
        case ImproveRequest():
            from lefleet.stages.improve import improve

            return improve
        case _:
            from lefleet.stages.collect import collect

            return collect
