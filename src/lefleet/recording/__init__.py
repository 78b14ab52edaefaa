"""Episodes that robots record: LeRobot datasets that survive a kill, and what is known about them.

    dataset      LeRobot's dataset, with every finished episode on disk and loadable
    recovery     which episodes of a killed recording are finished, and making it loadable again
    state        recording.json: what a recovery needs while an episode is being saved
    provenance   where each frame's action came from: provenance.jsonl beside the dataset
    labels       success or failure of each episode: outcomes.jsonl beside the dataset
    files        append, replace and lock files so that a kill leaves them whole

Imports `errors`, LeRobot, pyarrow and the types of the client; `edge` and `cli` may import it.
LeRobot's strategies hand frames to a `RecordedDataset`; an inference engine says where their
actions came from; the environment or a person says how an episode ended. All of it goes into the
dataset's folder. Training reads the dataset, `lefleet label` and `lefleet lineage` what is beside.

    recorded = RecordedDataset.create("local/rollout_a", fps=30, features=features, root=root)
    recorded.attach(executed=lambda: engine.executed, outcome=ask)
    with VideoEncodingManager(recorded): ...        # a strategy records, as with LeRobot's own
    recover(root)                                   # after a kill; `resume` does it by itself
    label(root, 3, success=True, source="command", who="anna")
    outcomes(root)[3].success, read_provenance(root, 3)
"""

from typing import TYPE_CHECKING, Any

from lefleet.recording.labels import (
    EpisodeLabel,
    Outcome,
    OutcomeSource,
    label,
    outcomes,
    undo_label,
)
from lefleet.recording.provenance import FrameProvenance, read_provenance
from lefleet.recording.recovery import finished_episodes, recover

if TYPE_CHECKING:
    from lefleet.recording.dataset import RecordedDataset

__all__ = [
    "EpisodeLabel",
    "FrameProvenance",
    "Outcome",
    "OutcomeSource",
    "RecordedDataset",
    "finished_episodes",
    "label",
    "outcomes",
    "read_provenance",
    "recover",
    "undo_label",
]


def __getattr__(name: str) -> Any:
    """The dataset brings LeRobot and torch, which labels do without."""
    if name == "RecordedDataset":
        from lefleet.recording.dataset import RecordedDataset

        return RecordedDataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
