"""What a run is asked to do (the content of a config file), what it starts from, and what it
decides."""

from typing import Annotated, Literal

from msgspec import Meta

from lefleet.records.approval import ApprovalAnswer, ApprovalPlan, Hours, NotifyPlan
from lefleet.records.border import Strict
from lefleet.records.checkpoint import CheckpointRecord
from lefleet.records.evaluate import GateLevel, GateResult, PolicyResult
from lefleet.records.executor import ExecutorPlan
from lefleet.records.fields import (
    Effect,
    ImageSide,
    LearningRate,
    Level,
    Metric,
    MixingRatio,
    NotNegative,
    Positive,
    Scope,
    Share,
    Tasks,
)
from lefleet.records.proposal import ProposePlan

GrowthSchedule = Annotated[tuple[Positive, ...], Meta(min_length=1)]
Tracker = Literal["trackio", "wandb"]


class ExpertGrowth(Strict, frozen=True, kw_only=True, tag_field="source", tag="expert"):
    """Scripted demonstrations, more of them every cycle."""

    episodes_per_task: GrowthSchedule = (2, 8, 25)
    """Demonstrations for each task, in all, after the first, second, … cycle. Further cycles grow
    by the last difference."""
    noise: Share = 0.0
    """Execution noise with clean labels."""
    cameras: tuple[str, ...] = ()
    """Cameras of LeFleet's MetaWorld that policies see beside the state: corner, gripper, behind,
    top. Evaluations and gates render what their checkpoints were trained with."""
    image_size: ImageSide = 96
    """Height and width of their images, in pixels."""


class DatasetSource(Strict, frozen=True, kw_only=True, tag_field="source", tag="dataset"):
    """Episodes of an existing LeRobotDataset."""

    repo_id: str = ""
    root: str = ""
    revision: str = ""
    tasks: tuple[str, ...] = ()
    """Task texts in the dataset. Empty: the run's tasks."""
    episodes_per_task: NotNegative | GrowthSchedule = 0
    """A number is that of every cycle; 0: as many as the rarest task has. Several numbers are those
    of the first, second, … cycle: every cycle's episodes are those of the cycle before and more.
    Further cycles grow by the last difference."""


class Rung(Strict, frozen=True, kw_only=True):
    """One rung of the policy ladder; the fields are those of a training."""

    name: str
    policy_type: str = "act"
    init: str = ""
    policy: dict[str, str] = {}
    steps: Positive = 1000
    batch_size: Positive = 64
    learning_rate: LearningRate = 1e-3
    num_workers: NotNegative = 0
    rename_map: dict[str, str] = {}
    extra_args: tuple[str, ...] = ()


class EvaluatePlan(Strict, frozen=True, kw_only=True):
    """The fixed block that the displayed rate comes from."""

    episodes_per_task: Positive = 20
    videos_per_task: NotNegative = 1
    env: dict[str, str] = {}
    """LeRobot environment flags. Empty: LeFleet's own MetaWorld."""
    initial_states: NotNegative = 0
    """Initial states of each task, where the environment has a finite list. 0: unlimited."""
    workers: NotNegative = 0
    """Processes that run episodes of evaluations and gates, as in an evaluation by hand."""


class GatePlan(Strict, frozen=True, kw_only=True):
    """The comparison of candidate and baseline."""

    alpha: Level = 0.05
    """For the whole run, not for one gate: each gate gets a share of it."""
    guarantee: Literal["run", "rate"] = "run"
    """run: with a chance of at least 1 - alpha, no candidate that is not better is ever promoted.
    rate: of all promotions, at most a share alpha is expected to be false."""
    max_pairs: Positive = 200
    min_effect: Effect = 0.15
    metric: Metric = "success"
    scope: Scope = "pooled"
    look_every: Positive = 5
    films: NotNegative = 2
    """Pairs to film when the gate has ended, those that differ first."""


class DecidePlan(Strict, frozen=True, kw_only=True):
    """Thresholds of the decision table."""

    baseline_floor: Share = 0.0
    """A first checkpoint becomes the baseline when its success is above this."""
    escalate_floor: Share = 0.5
    escalate_after: Positive = 3
    """Inconclusive gates in a row on one rung before the next rung is tried."""


class ImprovePlan(Strict, frozen=True, kw_only=True):
    """Whether and how the blessed policy makes data."""

    method: Literal["none", "harvest", "correct", "auto"] = "none"
    """auto: what the ledger says helped, chosen anew in every cycle."""
    episodes_per_task: Positive = 10
    mixing_ratio: MixingRatio = 0.5


class Budgets(Strict, frozen=True, kw_only=True):
    """Limits of a run; 0 means none."""

    cycles: Positive = 3
    wall_hours: Hours = 0.0
    device_hours: Hours = 0.0
    """Hours that training and rollouts ran."""
    collected_episodes: NotNegative = 0
    evaluation_episodes: NotNegative = 0
    llm_tokens: NotNegative = 0
    """Tokens of language models, read and written."""


class RunConfig(Strict, frozen=True, kw_only=True):
    """A whole run."""

    name: str
    tasks: Tasks = ("easy3",)
    seed: NotNegative = 0
    device: str = "cpu"
    """auto (the GPU, and the CPU where there is none), cpu, cuda, cuda:N or mps. A run keeps the
    one that auto meant when it began."""
    collect: ExpertGrowth | DatasetSource = ExpertGrowth()
    ladder: Annotated[tuple[Rung, ...], Meta(min_length=1)]
    continue_training: bool = True
    """Start from the blessed checkpoint of the same rung instead of from scratch."""
    evaluate: EvaluatePlan = EvaluatePlan()
    gate: GatePlan = GatePlan()
    decide: DecidePlan = DecidePlan()
    improve: ImprovePlan = ImprovePlan()
    propose: ProposePlan = ProposePlan()
    constitution: str = ""
    """YAML file with the rules of the run. Empty: constitution.yaml in the work folder, and where
    there is none the one that comes with LeFleet."""
    approvals: ApprovalPlan = ApprovalPlan()
    notify: NotifyPlan = NotifyPlan()
    track: tuple[Tracker, ...] = ()
    """Where to log the run's series, beside LeFleet's own files; with wandb, LeRobot logs its
    trainings there too."""
    executor: ExecutorPlan = ExecutorPlan()
    ledger: str = ""
    """Postgres database of a new work folder, for instance postgresql+psycopg://lab@db/lefleet.
    Empty: the ledger that the work folder has, or a file in it."""
    budgets: Budgets = Budgets()
    max_attempts: Positive = 3
    """Attempts at one stage before the run stops and asks for help."""
    hang_after_s: Annotated[float, Meta(gt=0.0)] = 900.0
    """A stage without activity for this long is started again."""


class OriginData(Strict, frozen=True, kw_only=True):
    """A dataset that a run started with."""

    path: str
    digest: str
    self_generated: int = 0
    """Episodes of it that policies made."""


class RunOrigin(Strict, frozen=True, kw_only=True):
    """Another run as it was after one of its decisions: what a new run started from."""

    run: str
    cycle: int
    checkpoint: CheckpointRecord
    """The blessed checkpoint: the first baseline of the new run."""
    result: PolicyResult
    """Of that checkpoint in its own fixed block."""
    rung: Rung
    """That it was trained on."""
    data: tuple[OriginData, ...]
    """Everything that the other run would have added to next."""
    seed_cycles: NotNegative
    """Number of the new run's first cycle in the seeds, which it shares with all runs that --from
    connects with it and that have the same seed."""


DecisionName = Literal["baseline", "promote", "iterate", "escalate", "rollback", "stop"]


class Decision(Strict, frozen=True, kw_only=True):
    """One cycle's decision."""

    cycle: int
    decision: DecisionName
    why: str
    rung: int
    """Rung of the policy ladder that the candidate was trained on."""
    candidate: str
    """Digest of the candidate."""
    blessed: str
    """Digest of the blessed checkpoint from now on, empty when there is none yet."""
    gate: GateResult | None = None
    gate_number: int = 0
    """This is the run's first, second, … gate; 0 where there was none."""
    level: GateLevel | None = None
    """Of the gate; None where there was none."""
    pairs_needed: int = 0
    """Pairs with which a new run could show an improvement, where there was no gate because the
    baseline leaves no room for one; else 0."""
    diagnosis: tuple[str, ...] = ()
    """What to look at, where nothing works yet."""
    answer: ApprovalAnswer | None = None
    """What a person said of it, where one was asked. A promotion or escalation that was rejected
    is an `iterate`."""
