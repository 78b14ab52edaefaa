"""The rules of a run: a constitution, what the run's own config adds to it, and the checks.

    rules = rules_for(find(workdir, config.constitution), config, workdir)
    rules.check_config(config)
    rules.check_request(request)
    rules.check_argv(argv, variables)

Every check returns nothing or raises `lefleet.errors.Denied`.
"""

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from lefleet.constitution.argv import flags_as_given, lerobot_flags, split
from lefleet.constitution.checks import Checks, devices_of, environment_of
from lefleet.constitution.commands import LEFLEET, OWN_TRAIN, TRAIN, judge_command, judge_flags
from lefleet.constitution.grants import (
    Grants,
    named_flags,
    of_config,
    of_request,
)
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
from lefleet.records.checkpoint import OFFLINE_WANDB

_SET_BY_STAGES = frozenset({"output_dir", "dataset.root", "dataset.repo_id", "config_path"})


class RolloutFacts(Strict, frozen=True, kw_only=True):
    """What the flags of a rollout name, before anything is imported or connected for them."""

    robot: tuple[str, ...] = ()
    """Type; all its names, where one class is registered under several."""
    teleoperator: tuple[str, ...] = ()
    """Type, likewise."""
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
        check = self._checks
        check.variables(variables)
        if tuple(argv) not in self.grants.commands:
            judge_command(check, split(argv))

    def check_config(self, config: RunConfig) -> None:
        """A run before it begins."""
        check = self._checks
        check.tasks(config.tasks)
        check.cap("cycles", config.budgets.cycles, "budgets.cycles")
        check.budget("wall_hours", config.budgets.wall_hours)
        check.budget("device_hours", config.budgets.device_hours)
        if config.propose.model:
            check.budget("llm_tokens", config.budgets.llm_tokens)
        check.cap("pairs", config.gate.max_pairs, "gate.max_pairs")
        _check_environment(check, config.evaluate.env)
        count = partial(check.cap, "episodes_per_task")
        count(config.evaluate.episodes_per_task, "evaluate.episodes_per_task")
        if config.improve.method != "none":
            count(config.improve.episodes_per_task, "improve.episodes_per_task")
        match config.collect:
            case ExpertGrowth(episodes_per_task=schedule):
                count(max(schedule), "collect.episodes_per_task")
            case DatasetSource(episodes_per_task=asked) as source:
                check.tasks(source.tasks)
                most = max(asked) if isinstance(asked, tuple) else asked
                count(most, "collect.episodes_per_task")
                check.data(source.repo_id, source.root)
        check.device(config.device)
        if "wandb" in config.track:
            _check_wandb(check, OWN_TRAIN)
        for rung in config.ladder:
            check.checkpoint(rung.init)
            check.cap("steps", rung.steps, f"steps of rung {rung.name}")
            check.cap("batch_size", rung.batch_size, f"batch_size of rung {rung.name}")
            check.cap("workers", rung.num_workers, f"num_workers of rung {rung.name}")
            _check_training_flags(check, rung.policy, rung.extra_args)
        if config.notify.command:
            self.check_argv(config.notify.command)
        if config.propose.model and not _is_local(config.propose.model):
            check.upload("propose.model", is_granted=self.constitution.own_config)
        if self.grants.folders:
            self.check_argv(
                (sys.executable, "-m", "lefleet", "stage", "exec", self.grants.folders[0])
            )
        if config.notify.webhook:
            check.upload("notify.webhook", is_granted=self.grants.webhook)

    def check_request(self, request: Request) -> None:  # noqa: PLR0912 - a branch per kind
        """A stage before it works."""
        check = self._checks
        check.tasks(getattr(request, "tasks", ()))
        if workers := getattr(request, "workers", 0):
            check.cap("workers", workers, "workers")
        if episodes := getattr(request, "episodes_per_task", 0):
            check.cap("episodes_per_task", episodes, "episodes_per_task")
        match request:
            case ExpertDemos():
                for task, number in request.episodes.items():
                    check.cap("episodes_per_task", number, f"episodes of {task}")
                for name in request.add_to:
                    check.dataset(name)
                _check_environment(check, request.env)
            case ExistingDataset():
                check.data(request.repo_id, request.root)
            case Corrections():
                check.checkpoint(request.checkpoint)
            case TrainRequest():
                check.device(request.device)
                if request.wandb:
                    _check_wandb(check, OWN_TRAIN if request.memory_data else TRAIN)
                check.dataset(request.dataset)
                check.checkpoint(request.init)
                check.cap("steps", request.steps, "steps")
                check.cap("batch_size", request.batch_size, "batch_size")
                check.cap("workers", request.num_workers, "num_workers")
                _check_training_flags(check, request.policy, request.extra_args)
            case EvaluateRequest() | CompareRequest():
                check.checkpoint(request.checkpoint)
                check.cap("batch_size", request.batch_size, "batch_size")
                if isinstance(request, CompareRequest):
                    check.checkpoint(request.baseline)
                    check.cap("pairs", request.max_pairs, "max_pairs")
                _check_environment(check, request.env)
            case ImproveRequest():
                check.checkpoint(request.checkpoint)
                check.dataset(request.demos)
            case ProfileRequest():
                check.checkpoint(request.checkpoint)
                check.cap("robots", request.robots, "robots")
                check.cap("episodes_per_task", request.episodes, "episodes")
            case ProposeRequest():
                check.tasks(request.limits.tasks)

    def check_tasks(self, texts: Iterable[str]) -> None:
        """Task texts, whoever proposed them."""
        self._checks.tasks(texts)

    def check_proposal(self, proposal: Proposal) -> None:
        """What a cycle should do, before it does it."""
        check = self._checks
        check.tasks(proposal.episodes)
        for task, number in proposal.episodes.items():
            check.cap("episodes_per_task", number, f"proposed episodes of {task}")

    def check_rollout(self, facts: RolloutFacts) -> None:
        """A robot before it is connected."""
        check = self._checks
        for name in facts.plugins:
            check.plugin(name)
        for name in facts.config_paths:
            check.config_path(name)
        if facts.robot:
            check.robot(*facts.robot)
        if facts.teleoperator:
            check.robot(*facts.teleoperator, device="teleoperator")
        check.checkpoint(facts.checkpoint)
        for name in facts.datasets:
            check.dataset(name)
        check.tasks(facts.tasks)
        if facts.uploads:
            check.upload("dataset.push_to_hub", is_granted=self.constitution.own_config)

    def check_served(
        self, checkpoint: str, *, adapter: str = "", plugins: Iterable[str] = (), task: str = ""
    ) -> None:
        """What a policy server loads, before it does."""
        check = self._checks
        for name in plugins:
            check.plugin(name)
        check.checkpoint(checkpoint)
        check.checkpoint(adapter)
        check.tasks((task,) if task else ())

    def uses_hardware(self, subject: RunConfig | Request) -> bool:
        """Whether a run or a stage moves something real."""
        if isinstance(subject, RunConfig):
            env = subject.evaluate.env
            extra = [flag for rung in subject.ladder for flag in rung.extra_args]
        else:
            env, extra = getattr(subject, "env", {}), [*getattr(subject, "extra_args", ())]
        flags = flags_as_given([*named_flags("env", env), *extra])
        robots = self.constitution.robots
        devices = devices_of(flags, "env")
        return any(not robots.is_simulated((kind,), device) for device, kind in devices)

    def motors_of(self, types: Iterable[str]) -> dict[str, MotorRules]:
        """Limits of robots of a type, which may have several names, by the name or pattern that is
        written there; all that match apply."""
        by_type, names = self.constitution.motors.robots, tuple(types)
        return {
            one: motors
            for one, motors in by_type.items()
            if any(matches(name, (one,)) for name in names)
        }

    @property
    def file(self) -> str:
        """Where a person would change the rules."""
        return self.source or f"{NAME} of the work folder (make it: lefleet constitution init)"

    @property
    def _checks(self) -> Checks:
        return Checks(self.constitution, self.grants, self.file)


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
        problem = as_bad_input(error, "the rules that were stored with the run").problem
        raise Denied("constitution", problem, "Begin another run.") from error
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


def _is_local(model: str) -> bool:
    """Whether a language model is asked on this machine."""
    host = urlsplit(model.partition("@")[2]).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _check_environment(check: Checks, env: dict[str, str]) -> None:
    check.environment(environment_of(env))
    for device, kind in devices_of({f"env.{name}": value for name, value in env.items()}, "env"):
        check.robot(kind, device=device)
    if env:
        judge_flags(check, LEFLEET, lerobot_flags(named_flags("env", env)))


def _check_wandb(check: Checks, training: str) -> None:
    """What LeFleet sets where a training is logged to W&B, beside the name of the job."""
    check.variables(("WANDB_ERROR_REPORTING",))
    judge_flags(check, training, OFFLINE_WANDB)


def _check_training_flags(check: Checks, policy: dict[str, str], extra_args: Sequence[str]) -> None:
    """LeRobot's flags that a training names beside its fields.

    Those that LeFleet sets itself are left to the stage, which refuses them; and the final command
    line is judged with all of them.
    """
    flags = lerobot_flags([*named_flags("policy", policy), *extra_args])
    judge_flags(check, TRAIN, {key: flags[key] for key in flags if key not in _SET_BY_STAGES})
