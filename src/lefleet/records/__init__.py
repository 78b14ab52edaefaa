"""Typed requests and records: what goes into a stage, and what comes out.

Everything here is a frozen msgspec struct, kept as JSON beside the stage's artifacts
(`request.json`, `record.json`, `episodes.jsonl`). `border` is the one place where bytes become
structs, `config_file` where YAML becomes fields. Imports msgspec, yaml and `errors`, nothing else;
every other folder may import it.
"""

from lefleet.records.border import decode, encode, validated
from lefleet.records.checkpoint import CheckpointRecord, Contract, LossPoint
from lefleet.records.collect import (
    AddedData,
    CollectRequest,
    Corrections,
    DatasetRecord,
    ExistingDataset,
    ExpertDemos,
    Tally,
)
from lefleet.records.compare import (
    CompareOptions,
    CompareRequest,
    ComparisonRecord,
    GateLook,
    GateResult,
    TaskPairs,
)
from lefleet.records.decision import Decision
from lefleet.records.evaluate import (
    EpisodeRecord,
    EvaluateRequest,
    EvaluationRecord,
    PolicyResult,
    Rate,
)
from lefleet.records.improve import ImproveRequest, MixRecord
from lefleet.records.run import (
    Budgets,
    DatasetSource,
    DecidePlan,
    EvaluatePlan,
    ExpertGrowth,
    GatePlan,
    ImprovePlan,
    RunConfig,
    Rung,
)
from lefleet.records.seeds import SeedBlock
from lefleet.records.train import TrainRequest

Request = CollectRequest | TrainRequest | EvaluateRequest | CompareRequest | ImproveRequest
Record = DatasetRecord | CheckpointRecord | EvaluationRecord | ComparisonRecord | MixRecord

__all__ = [
    "AddedData",
    "Budgets",
    "CheckpointRecord",
    "CollectRequest",
    "CompareOptions",
    "CompareRequest",
    "ComparisonRecord",
    "Contract",
    "Corrections",
    "DatasetRecord",
    "DatasetSource",
    "DecidePlan",
    "Decision",
    "EpisodeRecord",
    "EvaluatePlan",
    "EvaluateRequest",
    "EvaluationRecord",
    "ExistingDataset",
    "ExpertDemos",
    "ExpertGrowth",
    "GateLook",
    "GatePlan",
    "GateResult",
    "ImprovePlan",
    "ImproveRequest",
    "LossPoint",
    "MixRecord",
    "PolicyResult",
    "Rate",
    "Record",
    "Request",
    "RunConfig",
    "Rung",
    "SeedBlock",
    "Tally",
    "TaskPairs",
    "TrainRequest",
    "decode",
    "encode",
    "validated",
]
