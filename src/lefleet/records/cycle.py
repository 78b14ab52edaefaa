"""The committed records of one cycle, each as the type that its stage commits."""

from collections.abc import Mapping

from lefleet.records.checkpoint import CheckpointRecord
from lefleet.records.data import DatasetRecord, MixRecord
from lefleet.records.evaluate import ComparisonRecord, EvaluationRecord
from lefleet.records.proposal import ProposalRecord


class CycleRecords:
    """Base of what knows a cycle: its `records` by stage. None: the stage has not committed."""

    records: Mapping[str, object]

    def asked(self) -> ProposalRecord | None:
        """What a language model proposed."""
        record = self.records.get("propose")
        return record if isinstance(record, ProposalRecord) else None

    def dataset(self) -> DatasetRecord | None:
        record = self.records.get("collect")
        return record if isinstance(record, DatasetRecord) else None

    def checkpoint(self) -> CheckpointRecord | None:
        record = self.records.get("train")
        return record if isinstance(record, CheckpointRecord) else None

    def evaluation(self) -> EvaluationRecord | None:
        record = self.records.get("evaluate")
        return record if isinstance(record, EvaluationRecord) else None

    def gate(self) -> ComparisonRecord | None:
        record = self.records.get("gate")
        return record if isinstance(record, ComparisonRecord) else None

    def mix(self) -> MixRecord | None:
        record = self.records.get("improve")
        return record if isinstance(record, MixRecord) else None
