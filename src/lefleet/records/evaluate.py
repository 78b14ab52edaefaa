"""How good is a checkpoint, and is it better than another: requests, episodes and results."""

from typing import Annotated, Literal

from msgspec import Meta

from lefleet.records.border import Strict
from lefleet.records.fields import (
    Effect,
    Level,
    Metric,
    NotNegative,
    Positive,
    Scope,
    SeedBlock,
    Tasks,
)


class EvaluateRequest(Strict, frozen=True, kw_only=True, tag_field="kind", tag="evaluate"):
    """Evaluation settings."""

    checkpoint: str
    """Checkpoint to evaluate: train stage folder, pretrained_model folder, or hub id. On the
    command line also RUN (its blessed one), RUN:CYCLE, or blessed (the newest blessed one)."""
    tasks: Tasks = ("easy3",)
    """Tasks or task sets (easy3, mt10, all)."""
    episodes_per_task: Positive = 20
    """Episodes for each task."""
    seed: NotNegative = int(SeedBlock.EVALUATE)
    """First seed; episode i of every task has seed + i, as in lerobot-eval."""
    videos_per_task: NotNegative = 1
    """Episodes of each task to film."""
    batch_size: Positive = 20
    """Episodes that step together in one policy batch."""
    episode_length: Annotated[int, Meta(ge=0, le=500)] = 0
    """Steps after which an episode has failed, at most MetaWorld's 500. 0: the task's horizon."""
    workers: NotNegative = 0
    """Processes. 0: one per core, no more than there are batches; one if a policy acts in another
    environment on a GPU, where each process has its own copy of it."""
    device: str = "cpu"
    """auto (the GPU, and the CPU where there is none), cpu, cuda, cuda:N or mps."""
    env: dict[str, str] = {}
    """Evaluate in a LeRobot environment: its flags by name, for instance type and task. Empty:
    LeFleet's MetaWorld."""


PolicyRole = Literal["candidate", "baseline"]


class EpisodeRecord(Strict, frozen=True, kw_only=True):
    """One line of `episodes.jsonl`."""

    policy: PolicyRole
    task: str
    seed: int
    success: bool
    progress: float
    length: int
    """Steps; 0 in records of older versions where lerobot-eval ran the episode."""
    video: str = ""
    """Path relative to the stage folder, empty when not filmed."""
    video_problem: str = ""
    """Why it could not be filmed."""
    start: str = ""
    """Digest of the initial state, where it is known."""


class Rate(Strict, frozen=True, kw_only=True):
    """Successes of a fixed number of episodes with the exact 95 % interval."""

    successes: int
    episodes: int
    rate: float
    interval: tuple[Annotated[float, Meta(ge=0, le=1)], Annotated[float, Meta(ge=0, le=1)]]


class PolicyResult(Strict, frozen=True, kw_only=True):
    """One checkpoint's results."""

    checkpoint: str
    digest: str
    overall: Rate
    per_task: dict[str, Rate]
    mean_progress: float
    mean_length: float


class EvaluationRecord(
    Strict, frozen=True, kw_only=True, tag_field="kind", tag="evaluation_record"
):
    """A finished evaluation; the episodes are in `episodes_file` beside it."""

    result: PolicyResult
    tasks: tuple[str, ...]
    first_seed: int
    episodes_per_task: int
    episodes_file: str
    videos_note: str = ""
    """Why there are no videos, where some were asked for."""


Verdict = Literal["better", "worse", "inconclusive"]
Ended = Literal["better", "worse", "futile", "exhausted", "vetoed", "open"]


class CompareSettings(Strict, frozen=True, kw_only=True):
    """What a comparison by hand and the gate of a run have in common."""

    tasks: tuple[str, ...] = ()
    """Tasks or task sets (easy3, mt10, all). Default: easy3."""
    max_pairs: Positive | None = None
    """Maximum number of pairs, over all tasks. Default: 200. With --from: the number of pairs that
    you plan to run in total, if the file is not complete yet. Default: those in the file."""
    min_effect: Effect = 0.15
    """Smallest difference that matters. The comparison stops early if it can no longer show this
    difference; with --from it never does."""
    metric: Metric = "success"
    """success: which checkpoint succeeds more often. progress: which one makes more
    progress; success must not point the other way."""
    scope: Scope = "pooled"
    """pooled: all tasks together. per_task: "better" also requires that no task has become worse,
    and always takes max_pairs."""
    seed: NotNegative | None = None
    """First seed, 500000000 or above: lower ones are reserved for the data and the evaluations of
    runs. Default: derived from the checkpoints and the options."""
    workers: NotNegative = 0
    """Processes. 0: one per core."""
    device: str = "cpu"
    """auto (the GPU, and the CPU where there is none), cpu, cuda, cuda:N or mps."""


class CompareOptions(CompareSettings, frozen=True, kw_only=True):
    """Comparison settings."""

    alpha: Level = 0.05
    """Largest probability of a wrong "better", and of a wrong "worse"."""
    env: dict[str, str] = {}
    """Compare in a LeRobot environment: its flags by name, for instance type and task. Empty:
    LeFleet's MetaWorld."""
    initial_states: NotNegative = 0
    """Initial states that this environment has for each task. 0: one for every seed."""


class CompareRequest(CompareSettings, frozen=True, kw_only=True, tag_field="kind", tag="compare"):
    """Pairs of episodes on the same seeds until the evidence suffices; every option is set."""

    checkpoint: str
    """Checkpoint that is judged: train stage folder, pretrained_model folder, or hub id."""
    baseline: str
    """Checkpoint that it is judged against."""
    tasks: Tasks = ("easy3",)
    max_pairs: Positive = 200
    seed: NotNegative = int(SeedBlock.COMPARE)
    alpha_better: Level = 0.05
    """Largest probability of a wrong "better"."""
    alpha_worse: Level = 0.05
    """Largest probability of a wrong "worse"."""
    baseline_rate: Effect | None = None
    """Expected success of the baseline (with `metric: progress` its progress): the gate does not
    wait for more improvement than that leaves. None: unknown."""
    look_every: Positive = 5
    """Pairs between two looks at the evidence."""
    batch_size: Positive = 10
    """Episodes of one checkpoint that step together."""
    initial_states: NotNegative = 0
    """Initial states that the environment has for each task. 0: one for every seed."""
    env: dict[str, str] = {}
    """Another LeRobot environment, as in an evaluation. Empty: LeFleet's MetaWorld."""
    env_tasks: NotNegative = 0
    """In requests of older versions; the environment itself says which tasks it has."""
    films: NotNegative = 0
    """Pairs to film when the verdict is there, those that differ first. No result depends on it, so
    requests that differ only in this are the same one."""


class GateLook(Strict, frozen=True, kw_only=True):
    """The evidence at one look."""

    pairs: int
    wins: int
    losses: int
    log_e: float
    """Natural logarithm of the e-value for "better"."""
    p_value: float
    """For "better"; sequential."""
    p_worse: float
    interval: tuple[float, float]
    """Confidence sequence of the difference."""
    power: float
    """Chance to show `min_effect` from here on."""


class TaskPairs(Strict, frozen=True, kw_only=True):
    """One task's part of a comparison; the intervals are as if the number had been fixed."""

    pairs: int
    wins: int
    losses: int
    candidate: Rate
    baseline: Rate


class GateResult(Strict, frozen=True, kw_only=True):
    """The result of a gate: a comparison, a decision and a run's status all hold this value."""

    verdict: Verdict
    """About the candidate, against the baseline."""
    ended: Ended
    """futile: `min_effect` was out of reach. exhausted: max_pairs. vetoed: a task became worse.
    open: there are fewer outcomes than were planned."""
    pairs: int
    wins: int
    """Pairs in which only the candidate succeeded."""
    losses: int
    """Pairs in which only the baseline succeeded."""
    e_value: float
    """For "better"."""
    e_worse: float
    p_value: float
    """For "better". Sequential: right at every look, so also after an early stop."""
    p_worse: float
    difference: float
    """Candidate minus baseline, per pair."""
    interval: tuple[float, float]
    """95 % confidence sequence of the difference."""
    alpha_better: float
    """Level that "better" was tested at."""
    alpha_worse: float
    min_effect: float
    max_pairs: int
    fixed_pairs: int | None
    """Pairs of a test of fixed size at level alpha_better that shows `min_effect` 8 times in 10, at
    the share of differing pairs seen here; None for more than 20,000, and for progress."""
    baseline_rate: float | None = None
    """Expected success of the baseline, where it was known: the gate gives up when it can no
    longer show `min_effect`, or what this rate leaves if that is less."""
    worse_tasks: tuple[str, ...] = ()
    """Tasks that were shown to have become worse, each at its share of alpha_worse."""


MOST_NEEDED = 10_000
"""The largest `needed_pairs`: stands for as many or more."""


class GateLevel(Strict, frozen=True, kw_only=True):
    """The level of a gate of a run, and where it comes from."""

    better: float
    worse: float
    guarantee: Literal["run", "rate", "none"]
    """What the gates of the run promise together. none: they share a finite list of initial
    states, so alpha holds for the first gate only."""
    source: Literal["planned", "reserve", "rate"]
    """Of the share. planned: for a gate within the first cycle budget; reserve: for one beyond it;
    rate: what LORD++ allows."""
    share: float
    passed_on: float = 0.0
    """Level of the gate before, if that one said better. `better` is share plus this."""
    passed_by: int | None = None
    """Cycle of that gate."""


class ComparisonRecord(
    Strict, frozen=True, kw_only=True, tag_field="kind", tag="comparison_record"
):
    """A finished comparison; the episodes are in `episodes_file` beside it."""

    gate: GateResult
    metric: Metric
    scope: Scope
    candidate: str
    """Digest; a and b where the outcomes were recorded elsewhere."""
    baseline: str
    candidate_path: str
    """Folder of the checkpoint, or the file of its outcomes, if each has its own."""
    baseline_path: str
    per_task: dict[str, TaskPairs]
    looks: tuple[GateLook, ...]
    first_seed: int
    episodes: int
    """Episodes run, of both checkpoints; some may have come after the decision."""
    episodes_file: str
    note: str = ""
    """A limit of the claim, such as a finite set of initial states."""
    needed_pairs: int | None = None
    """Of an inconclusive comparison: about how many new pairs show the difference seen here 8 times
    in 10, at most 10,000, which stands for as many or more. None where no difference was seen."""
    tasks: tuple[str, ...] = ()
    """In the order from which each seed shuffles them. Empty in records of older versions, and
    where the outcomes were recorded elsewhere."""
