"""Typed requests and records: what goes into a stage, and what comes out.

    border        bytes to structs and back; a mistake names its field
    config_file   YAML and --key=value flags to fields
    fields        seeds by purpose, and the ranges of fields
    data          collecting and improving: requests, datasets, mixes
    checkpoint    training: its request, the checkpoint and its contract
    evaluate      evaluating and comparing: requests, episodes, rates, gate results
    profile       success against latency: request, episodes, envelope
    cycle         the committed records of one cycle, each as its type
    approval      what a run asks a person, the answer, and who is told
    proposal      what a cycle should do, and asking a language model for it
    diagnosis     what may explain that nothing works
    run           a run's config, its origin and its decisions

Everything here is a frozen msgspec struct, kept as JSON beside the stage's artifacts
(`request.json`, `record.json`, `episodes.jsonl`) and in the ledger. Imports msgspec, yaml and
`errors`, nothing else; every other folder may import it.
"""

from lefleet.records.approval import (
    ApprovalAnswer,
    ApprovalKind,
    ApprovalPlan,
    NotifyKind,
    NotifyPlan,
)
from lefleet.records.border import decode, encode, validated
from lefleet.records.checkpoint import CheckpointContract, CheckpointRecord, LossPoint, TrainRequest
from lefleet.records.data import (
    AddedData,
    AttemptCounts,
    CollectRequest,
    Corrections,
    DatasetRecord,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    MixRecord,
)
from lefleet.records.evaluate import (
    CompareOptions,
    CompareRequest,
    ComparisonRecord,
    EpisodeRecord,
    EvaluateRequest,
    EvaluationRecord,
    GateLevel,
    GateLook,
    GateResult,
    PolicyResult,
    Rate,
    TaskPairs,
)
from lefleet.records.fields import SeedBlock
from lefleet.records.profile import (
    DelayCell,
    DrivenEpisode,
    EnvelopeRecord,
    ProfileOptions,
    ProfileRequest,
)
from lefleet.records.proposal import (
    Proposal,
    ProposalLimits,
    ProposalRecord,
    ProposedAction,
    ProposePlan,
    ProposeRequest,
)
from lefleet.records.run import (
    Budgets,
    DatasetSource,
    DecidePlan,
    Decision,
    EvaluatePlan,
    ExpertGrowth,
    GatePlan,
    ImprovePlan,
    OriginData,
    RunConfig,
    Rung,
    RunOrigin,
    Tracker,
)

Request = (
    CollectRequest
    | TrainRequest
    | EvaluateRequest
    | CompareRequest
    | ImproveRequest
    | ProfileRequest
    | ProposeRequest
)
Record = (
    DatasetRecord
    | CheckpointRecord
    | EvaluationRecord
    | ComparisonRecord
    | MixRecord
    | EnvelopeRecord
    | ProposalRecord
)

__all__ = [
    "AddedData",
    "ApprovalAnswer",
    "ApprovalKind",
    "ApprovalPlan",
    "AttemptCounts",
    "Budgets",
    "CheckpointContract",
    "CheckpointRecord",
    "CollectRequest",
    "CompareOptions",
    "CompareRequest",
    "ComparisonRecord",
    "Corrections",
    "DatasetRecord",
    "DatasetSource",
    "DecidePlan",
    "Decision",
    "DelayCell",
    "DrivenEpisode",
    "EnvelopeRecord",
    "EpisodeRecord",
    "EvaluatePlan",
    "EvaluateRequest",
    "EvaluationRecord",
    "ExistingDataset",
    "ExpertDemos",
    "ExpertGrowth",
    "GateLevel",
    "GateLook",
    "GatePlan",
    "GateResult",
    "ImprovePlan",
    "ImproveRequest",
    "LossPoint",
    "MixRecord",
    "NotifyKind",
    "NotifyPlan",
    "OriginData",
    "PolicyResult",
    "ProfileOptions",
    "ProfileRequest",
    "Proposal",
    "ProposalLimits",
    "ProposalRecord",
    "ProposePlan",
    "ProposeRequest",
    "ProposedAction",
    "Rate",
    "Record",
    "Request",
    "RunConfig",
    "RunOrigin",
    "Rung",
    "SeedBlock",
    "TaskPairs",
    "Tracker",
    "TrainRequest",
    "decode",
    "encode",
    "validated",
]
