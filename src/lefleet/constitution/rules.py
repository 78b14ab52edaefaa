"""The rules of a run: a constitution, what the run's own config adds to it, and the checks.

    rules = rules_for(find(workdir, config.constitution), config, workdir)
    rules.check_config(config)
    rules.check_request(request)
    rules.check_argv(argv, variables)

Every check returns nothing or raises `lefleet.errors.Denied`.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from lefleet.constitution.argv import lerobot_flags, split
from lefleet.constitution.commands import EVAL, TRAIN, judge_command, judge_flags
from lefleet.constitution.grants import (
    Grants,
    named_flags,
    of_config,
    of_request,
)
from lefleet.constitution.judge import Judge, devices_of, environment_of
from lefleet.constitution.paths import matches
from lefleet.constitution.schema import (
    NAME,
    Constitution,
    ConstitutionSource,
    MotorRules,
    digest_of,
)
from lefleet.errors import Denied
from lefleet.records import (
    CompareRequest,
    Corrections,
    DatasetSource,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ExpertGrowth,
    ImproveRequest,
    ProfileRequest,
    Proposal,
    ProposeRequest,
    Request,
    RunConfig,
    RunOrigin,
    TrainRequest,
)
from lefleet.records.border import Strict, as_bad_input


class RolloutFacts(Strict, frozen=True, kw_only=True):
    """What the flags of a rollout name, before anything is imported or connected for them."""

    robot: str = ""
    """Type."""
    teleoperator: str = ""
    """Type."""
    checkpoint: str = ""
    plugins: tuple[str, ...] = ()
    config_paths: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    uploads: bool = False

    def grants(self) -> Grants:
        """What a person who asks for this rollout names."""
        return Grants(
            checkpoints=(self.checkpoint,) if self.checkpoint else (),
            plugins=self.plugins,
            config_paths=self.config_paths,
            datasets=self.datasets,
        )


class Rules(Strict, frozen=True, kw_only=True):
    """What one run, stage, server or rollout may do. `digest` stands for all but `source`."""

    constitution: Constitution
    grants: Grants = Grants()
    source: str = ""
    """File of the constitution, for a person; empty: it comes with LeFleet."""

    @property
    def digest(self) -> str:
        return digest_of((self.constitution, self.grants))

    def check_argv(self, argv: Sequence[str], variables: Iterable[str] = ()) -> None:
        """A program before it is started; `variables` are set beside what it inherits."""
        judge = self._judge
        judge.variables(variables)
        if tuple(argv) not in self.grants.commands:
            judge_command(judge, split(argv))

    def check_config(self, config: RunConfig) -> None:
        """A run before it begins."""
        judge = self._judge
        judge.tasks(config.tasks)
        judge.cap("cycles", config.budgets.cycles, "budgets.cycles")
        judge.budget("wall_hours", config.budgets.wall_hours)
        judge.budget("device_hours", config.budgets.device_hours)
        if config.propose.model:
            judge.budget("llm_tokens", config.budgets.llm_tokens)
        judge.cap("pairs", config.gate.max_pairs, "gate.max_pairs")
        _check_environment(judge, config.evaluate.env)
        count = partial(judge.cap, "episodes_per_task")
        count(config.evaluate.episodes_per_task, "evaluate.episodes_per_task")
        count(config.improve.episodes_per_task, "improve.episodes_per_task")
        match config.collect:
            case ExpertGrowth(episodes_per_task=schedule):
                count(max(schedule), "collect.episodes_per_task")
            case DatasetSource() as source:
                judge.tasks(source.tasks)
                count(source.episodes_per_task, "collect.episodes_per_task")
                _check_data(judge, source.repo_id, source.root)
        for rung in config.ladder:
            judge.checkpoint(rung.init)
            judge.cap("steps", rung.steps, f"steps of rung {rung.name}")
            judge.cap("batch_size", rung.batch_size, f"batch_size of rung {rung.name}")
            judge.cap("workers", rung.num_workers, f"num_workers of rung {rung.name}")
            _check_training_flags(judge, rung.policy, rung.extra_args)
        if config.notify.command:
            self.check_argv(config.notify.command)
        if config.notify.webhook:
            judge.upload("notify.webhook", is_granted=self.grants.webhook)

    def check_request(self, request: Request) -> None:  # noqa: PLR0912 - a branch per kind
        """A stage before it works."""
        judge = self._judge
        judge.tasks(getattr(request, "tasks", ()))
        if workers := getattr(request, "workers", 0):
            judge.cap("workers", workers, "workers")
        if episodes := getattr(request, "episodes_per_task", 0):
            judge.cap("episodes_per_task", episodes, "episodes_per_task")
        match request:
            case ExpertDemos():
                for task, number in request.episodes.items():
                    judge.cap("episodes_per_task", number, f"episodes of {task}")
                for name in request.add_to:
                    judge.dataset(name)
            case ExistingDataset():
                _check_data(judge, request.repo_id, request.root)
            case Corrections():
                judge.checkpoint(request.checkpoint)
            case TrainRequest():
                judge.dataset(request.dataset)
                judge.checkpoint(request.init)
                judge.cap("steps", request.steps, "steps")
                judge.cap("batch_size", request.batch_size, "batch_size")
                judge.cap("workers", request.num_workers, "num_workers")
                _check_training_flags(judge, request.policy, request.extra_args)
            case EvaluateRequest() | CompareRequest():
                judge.checkpoint(request.checkpoint)
                judge.cap("batch_size", request.batch_size, "batch_size")
                if isinstance(request, CompareRequest):
                    judge.checkpoint(request.baseline)
                    judge.cap("pairs", request.max_pairs, "max_pairs")
                _check_environment(judge, request.env)
            case ImproveRequest():
                judge.checkpoint(request.checkpoint)
                judge.dataset(request.demos)
            case ProfileRequest():
                judge.checkpoint(request.checkpoint)
                judge.cap("robots", request.robots, "robots")
                judge.cap("episodes_per_task", request.episodes, "episodes")
            case ProposeRequest():
                judge.tasks(request.limits.tasks)

    def check_tasks(self, texts: Iterable[str]) -> None:
        """Task texts, whoever proposed them."""
        self._judge.tasks(texts)

    def check_proposal(self, proposal: Proposal) -> None:
        """What a cycle should do, before it does it."""
        judge = self._judge
        judge.tasks(proposal.episodes)
        for task, number in proposal.episodes.items():
            judge.cap("episodes_per_task", number, f"proposed episodes of {task}")

    def check_rollout(self, facts: RolloutFacts) -> None:
        """A robot before it is connected."""
        judge = self._judge
        for name in facts.plugins:
            judge.plugin(name)
        for name in facts.config_paths:
            judge.config_path(name)
        if facts.robot:
            judge.robot(facts.robot, "robot")
        if facts.teleoperator:
            judge.robot(facts.teleoperator, "teleoperator")
        judge.checkpoint(facts.checkpoint)
        for name in facts.datasets:
            judge.dataset(name)
        judge.tasks(facts.tasks)
        if facts.uploads:
            judge.upload("dataset.push_to_hub", is_granted=self.constitution.own_config)

    def check_served(
        self, checkpoint: str, *, adapter: str = "", plugins: Iterable[str] = (), task: str = ""
    ) -> None:
        """What a policy server loads, before it does."""
        judge = self._judge
        for name in plugins:
            judge.plugin(name)
        judge.checkpoint(checkpoint)
        judge.checkpoint(adapter)
        judge.tasks((task,) if task else ())

    def uses_hardware(self, subject: RunConfig | Request) -> bool:
        """Whether a run or a stage moves something real."""
        env = (
            subject.evaluate.env if isinstance(subject, RunConfig) else getattr(subject, "env", {})
        )
        flags = {f"env.{name}": value for name, value in env.items()}
        simulated = self.constitution.robots.simulated
        return any(not matches(kind, simulated) for _, kind in devices_of(flags, "env"))

    def motors_of(self, robot_type: str) -> tuple[MotorRules, MotorRules]:
        """Limits for any robot that has the joint, and those for robots of this type."""
        motors = self.constitution.motors
        return motors, motors.robots.get(robot_type, MotorRules())

    @property
    def file(self) -> str:
        """Where a person would change the rules."""
        return self.source or f"{NAME} of the work folder (make it: lefleet constitution init)"

    @property
    def _judge(self) -> Judge:
        return Judge(self.constitution, self.grants, self.file)


def rules_for(
    source: ConstitutionSource, config: RunConfig, workdir: Path, origin: RunOrigin | None = None
) -> Rules:
    """The rules of a run; what is in its work folder is always its own."""
    return _rules(source, of_config(config, workdir, origin))


def rules_for_request(source: ConstitutionSource, request: Request, folder: Path) -> Rules:
    """The rules of a stage that a person asked for by hand."""
    return _rules(source, of_request(request, folder))


def rules_for_grants(source: ConstitutionSource, grants: Grants) -> Rules:
    """The rules of anything else that a person asked for by hand."""
    return _rules(source, grants)


def _rules(source: ConstitutionSource, grants: Grants) -> Rules:
    if not source.constitution.own_config:
        grants = Grants(folders=grants.folders)
    return Rules(constitution=source.constitution, grants=grants, source=source.path)


def stored(rules: Rules) -> dict[str, Any]:
    """The rules as JSON fields with their digest, to be kept with a run."""
    return {"digest": rules.digest, **msgspec.to_builtins(rules)}


def restored(fields: dict[str, Any]) -> Rules:
    """What `stored` made; Denied where it was changed since."""
    content = {name: value for name, value in fields.items() if name != "digest"}
    try:
        rules = msgspec.convert(content, Rules)
    except msgspec.ValidationError as error:
        raise as_bad_input(error, "constitution of the run") from error
    require_digest(rules, str(fields.get("digest", "")), "the rules that were stored with the run")
    return rules


def require_digest(rules: Rules, digest: str, what: str) -> None:
    """Raise Denied where rules are not those that the digest was made of."""
    if rules.digest != digest:
        raise Denied(
            "constitution",
            f"{what} were changed: digest {rules.digest[:12]}, not {digest[:12] or 'none'}.",
            "Restore them. To change a constitution, edit its file: a run then asks for approval.",
        )


def _check_environment(judge: Judge, env: dict[str, str]) -> None:
    judge.environment(environment_of(env))
    for device, kind in devices_of({f"env.{name}": value for name, value in env.items()}, "env"):
        judge.robot(kind, device)
    if env:
        judge_flags(judge, EVAL, lerobot_flags(named_flags("env", env)))


def _check_data(judge: Judge, repo_id: str, root: str) -> None:
    if root:
        judge.dataset(root)
    else:
        judge.dataset(repo_id)


def _check_training_flags(judge: Judge, policy: dict[str, str], extra_args: Sequence[str]) -> None:
    """LeRobot's flags that a training names beside its fields."""
    judge_flags(judge, TRAIN, lerobot_flags([*named_flags("policy", policy), *extra_args]))
