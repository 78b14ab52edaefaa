"""What a rollout worker is asked, and what it answers."""

from lefleet.records.border import Strict

BEGUN = b"begun"
"""The answer that says that a worker is ready and the episodes of its first batch begin."""


class Act(Strict, frozen=True, kw_only=True, tag=True):
    """The policy acts; its own actions are the labels."""


class Demonstrate(Strict, frozen=True, kw_only=True, tag=True):
    """The expert acts, with normal noise on what is executed but not on the labels."""

    noise: float = 0.0


class Relabel(Strict, frozen=True, kw_only=True, tag=True):
    """The policy acts; the labels are what the expert would have done."""


class TakeOver(Strict, frozen=True, kw_only=True, tag=True):
    """The policy acts until it makes no progress for `patience` steps; the expert finishes.

    Only the expert's part carries labels.
    """

    patience: int


Behaviour = Act | Demonstrate | Relabel | TakeOver


class PlannedEpisode(Strict, frozen=True, kw_only=True):
    """One episode of a batch."""

    row: int
    """Row in the policy's batch. Rows are fixed, so that an episode computes the same whether or
    not its neighbours still have to be run."""
    task: str
    seed: int
    frames: str = ""
    """Where to write the labelled frames (.npz); empty: nowhere."""
    video: str = ""
    """Where to write the film (.mp4); empty: not filmed."""


class EpisodeBatch(Strict, frozen=True, kw_only=True):
    """Episodes that step together."""

    size: int
    """Rows of the policy's batch, also where there are fewer episodes."""
    episodes: tuple[PlannedEpisode, ...]
    behaviour: Behaviour
    checkpoint: str = ""
    """Folder of the policy; empty where none acts."""
    label: str = ""
    """Comes back with every episode."""
    seed: int = 0
    """Seeds policies that sample."""
    episode_length: int = 0
    """Steps before an episode is cut off; 0: the task's horizon."""
    keep_failures: bool = False
    """Write frames of failed episodes too."""


class Finished(Strict, frozen=True, kw_only=True):
    """One episode's end."""

    task: str
    seed: int
    success: bool
    progress: float
    length: int
    checkpoint: str = ""
    label: str = ""
    """Of the batch."""
    labelled: int = 0
    """Frames written."""
    frames: str = ""
    video: str = ""
    video_problem: str = ""
    start: str = ""
    """Digest of the initial state."""
