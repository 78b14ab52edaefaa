"""What a rollout worker is asked, and what it answers."""

from msgspec import field

from lefleet.records.border import Strict
from lefleet.sim.render import ImageSize

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
    number: int = 0
    """Of the seed in its block, from 0 on. Environments with a finite list of initial states take
    the one of this number."""
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
    env: dict[str, str] = field(default_factory=dict)
    """Flags of the LeRobot environment that the episodes run in. Empty: LeFleet's simulation."""
    cameras: dict[str, ImageSize] = field(default_factory=dict)
    """Cameras of LeFleet's simulation that are rendered at every step."""
    seed: int = 0
    """Seeds policies that sample."""
    episode_length: int = 0
    """Steps before an episode is cut off; 0: the task's horizon, or the environment's limit."""
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


class EnvironmentDescription(Strict, frozen=True, kw_only=True):
    """What a LeRobot environment offers to policies."""

    type: str
    tasks: dict[str, str]
    """The texts of its tasks, by name: the group and the number that lerobot-eval reports."""
    steps: dict[str, int]
    """Steps before an episode is cut off, by task."""
    fps: int
    observations: dict[str, tuple[int, ...]]
    """Shapes by LeRobot's names, as policies get them. Images: channels, height, width."""
    action: int
    """Numbers in an action."""
    initial_states: int = 0
    """Initial states of each task, where there is a finite list; 0: one for every seed."""
    has_expert: bool = False
    """Whether its package has registered one that demonstrates."""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of columns in datasets, by LeRobot's names, where the package says them."""
