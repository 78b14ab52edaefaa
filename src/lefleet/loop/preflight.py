"""What is tried out before a run begins or continues, so that it does not fail hours later.

`lefleet run`, `run --plan` and `doctor -c` make the same checks. An environment of LeRobot is made
in a child process; for runs in LeFleet's own simulation none is started.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import msgspec

from lefleet.constitution import Rules, installed
from lefleet.devices import AUTO, CPU, ready_device
from lefleet.errors import BadInput, LedgerUnavailable
from lefleet.ledger import read_ledger
from lefleet.ledger.connect import require_ledger
from lefleet.loop.existing_data import require_data
from lefleet.loop.rules import begin_rules, launch_rules
from lefleet.loop.training import installed_family
from lefleet.process import NoReport, ask
from lefleet.records import DatasetSource, RunConfig
from lefleet.records.border import Strict
from lefleet.stages.contract import INFO, read_info
from lefleet.stages.environment_probe import EnvironmentReport
from lefleet.stages.extras import require_environment
from lefleet.stages.fitting import misfits
from lefleet.stages.progress import Progress, Update, silent
from lefleet.stages.references import is_hub_id

_PATIENCE_S = 600.0
"""For importing LeRobot on a busy machine, and for a simulator that builds its scene."""


class CheckResult(Strict, frozen=True, kw_only=True):
    """One finding. `state` is ok, warning (works with less) or problem (does not work)."""

    name: str
    """What was looked at; of a config the field."""
    state: Literal["ok", "warning", "problem"]
    found: str
    remedy: str = ""


class Preflight(Strict, frozen=True, kw_only=True):
    """What was found about a run that is to begin."""

    config: RunConfig
    """With the device that it means on this machine, where that can be used."""
    results: tuple[CheckResult, ...]

    def require_ok(self) -> RunConfig:
        """The config; BadInput with the first problem."""
        problems = [one for one in self.results if one.state == "problem"]
        if not problems:
            return self.config
        first, more = problems[0], len(problems) - 1
        rest = f" And {more} further problem{'s' if more > 1 else ''}." if more else ""
        raise BadInput(f"{first.name}: {first.found}.", f"{first.remedy}{rest}".strip())

    def besides_first_problem(self) -> tuple[CheckResult, ...]:
        """What is worth telling beside the error of `require_ok`."""
        first = next((one for one in self.results if one.state == "problem"), None)
        return tuple(one for one in self.results if one.state != "ok" and one is not first)


def result_lines(results: Sequence[CheckResult]) -> Iterator[str]:
    """For a person: a line for each, and one for its remedy."""
    for one in results:
        yield f"{one.state:8} {one.name}: {one.found}"
        if one.remedy:
            yield f"{'':8} -> {one.remedy}"


def examine_config(workdir: Path, config: RunConfig, progress: Progress = silent) -> Preflight:
    """Look at all that a run of this config needs. Denied where the rules do not allow it."""
    rules = begin_rules(workdir, config, None)
    device, ready = _device(workdir, config, progress)
    ledger = _ledger(workdir, config)
    return Preflight(config=ready, results=(device, *ledger, *_parts(config, rules, progress)))


def ready_config(workdir: Path, config: RunConfig, progress: Progress = silent) -> Preflight:
    """As `examine_config`, for a run that is to begin. One of that name that has begun is not
    examined again: its device is tried when it is resumed."""
    if not _has_begun(workdir, config.name):
        return examine_config(workdir, config, progress)
    known = with_ready_device(workdir, config, progress) if config.device == AUTO else config
    return Preflight(config=known, results=())


def with_ready_device(workdir: Path, config: RunConfig, progress: Progress = silent) -> RunConfig:
    """The config with the device that it means on this machine, tried out; BadInput where that
    cannot be used."""
    if config.device == CPU:
        return config
    progress(Update.phase(f"trying the device {config.device}"))
    with installed(launch_rules(workdir)):
        return msgspec.structs.replace(config, device=ready_device(config.device, "device"))


def _device(workdir: Path, config: RunConfig, progress: Progress) -> tuple[CheckResult, RunConfig]:
    try:
        ready = with_ready_device(workdir, config, progress)
    except BadInput as error:
        found = error.problem.removeprefix("device: ").removesuffix(".")
        refused = CheckResult(name="device", state="problem", found=found, remedy=error.remedy)
        return refused, config
    meant = f"{config.device} is {ready.device}" if config.device == AUTO else ready.device
    return CheckResult(name="device", state="ok", found=meant), ready


def _ledger(workdir: Path, config: RunConfig) -> Iterator[CheckResult]:
    """Whether the work folder can have the ledger that the config names; one in a file is worth a
    word only where it cannot be used."""
    try:
        found = require_ledger(workdir, config.ledger)
    except (BadInput, LedgerUnavailable) as error:
        named = error.problem.removeprefix("ledger: ").removesuffix(".")
        yield CheckResult(name="ledger", state="problem", found=named, remedy=error.remedy)
    else:
        if config.ledger:
            yield CheckResult(name="ledger", state="ok", found=found)


def _has_begun(workdir: Path, run: str) -> bool:
    """False also where only a command that migrates the ledger can read it: the run is then
    examined once more than needed."""
    try:
        with closing(read_ledger(workdir)) as ledger:
            return ledger.run(run) is not None
    except BadInput:
        return False


def _parts(config: RunConfig, rules: Rules, progress: Progress) -> Iterator[CheckResult]:
    """Data, policies and environment."""
    source, info = config.collect, None
    if isinstance(source, DatasetSource):
        info = _dataset_info(source)
        yield _data(config, source, info)
    for number, rung in enumerate(config.ladder):
        field = f"ladder[{number}]"
        if rung.init:
            start = _init(f"{field}.init", rung.init)
            yield start
            if start.state == "problem":
                continue
        try:
            family = installed_family(rung, field)
        except BadInput as error:
            yield _refused(error)
        else:
            yield CheckResult(name=f"{field}.policy_type", state="ok", found=family)
    if config.evaluate.env:
        try:
            require_environment(config.evaluate.env.get("type", ""), "evaluate.env.type")
        except BadInput as error:
            yield _refused(error)
            return
        progress(Update.phase("making the environment once, to look at it"))
        yield from _environment(config.evaluate.env, info, rules)


def _refused(error: BadInput, prefix: str = "") -> CheckResult:
    """A refusal as a finding: its first words name the field."""
    name, _, found = error.problem.partition(": ")
    return CheckResult(
        name=f"{prefix}{name}",
        state="problem",
        found=found.removesuffix("."),
        remedy=error.remedy,
    )


def _environment(
    env: dict[str, str], info: dict[str, Any] | None, rules: Rules
) -> Iterator[CheckResult]:
    """Whether it can be made, and fits the data where that is known."""
    report = _ask_about(env, rules)
    kind = env.get("type", "")
    if report.problem:
        yield _refused(BadInput(report.problem, report.remedy), "evaluate.")
        return
    if report.description is None:
        found = f"{kind} is known, and was not made"
        yield CheckResult(name="evaluate.env", state="warning", found=found)
        return
    seen = report.description
    tasks = f"{len(seen.tasks)} task{'s' if len(seen.tasks) > 1 else ''}"
    found = f"{kind}: {tasks}, {seen.fps} steps per second"
    yield CheckResult(name="evaluate.env", state="ok", found=found)
    if info is None:
        return
    differing = misfits(info, {"action": (seen.action,), **seen.observations}, seen.fps)
    for one in differing:
        yield CheckResult(
            name="collect, evaluate.env",
            state="problem" if one.fatal else "warning",
            found=one.text,
            remedy="Name the environment that the data comes from in evaluate.env, set up alike.",
        )
    if not differing:
        yield CheckResult(
            name="collect, evaluate.env", state="ok", found="names, shapes and rate agree"
        )


def _ask_about(env: dict[str, str], rules: Rules) -> EnvironmentReport:
    """What a child process finds, also where it hangs or crashes."""
    flags = [f"--env.{name}={value}" for name, value in env.items()]
    argv = (sys.executable, "-m", "lefleet", "environment", "probe", *flags)
    try:
        with installed(rules):
            return ask(argv, EnvironmentReport, _PATIENCE_S)
    except NoReport as error:
        return EnvironmentReport(problem=f"env: a trial of {env.get('type', '')} {error}.")


def _data(config: RunConfig, source: DatasetSource, info: dict[str, Any] | None) -> CheckResult:
    try:
        require_data(config)
    except BadInput as error:
        return _refused(error)
    if info is not None:
        where, episodes = source.root or source.repo_id, info.get("total_episodes", 0)
        found = f"{where}: {episodes} episodes, {info.get('fps', 0)} frames per second"
        return CheckResult(name="collect", state="ok", found=found)
    name = "collect.repo_id"
    if not is_hub_id(source.repo_id):
        return CheckResult(
            name=name,
            state="problem",
            found=f"{source.repo_id!r} names no dataset",
            remedy="Name one on the hub as user/name, or give root.",
        )
    if _is_offline():
        return CheckResult(
            name=name,
            state="problem",
            found=f"{source.repo_id} is not on this machine, and HF_HUB_OFFLINE is set",
            remedy="Unset HF_HUB_OFFLINE, or fetch it elsewhere and give root.",
        )
    return CheckResult(
        name=name,
        state="warning",
        found=f"{source.repo_id} is not on this machine: it is fetched from the hub when the run "
        "begins, and was not compared with the environment",
    )


def _init(name: str, init: str) -> CheckResult:
    """Whether the checkpoint to start from is on this machine."""
    if Path(init).is_dir():
        return CheckResult(name=name, state="ok", found=init)
    if not is_hub_id(init):
        return CheckResult(
            name=name,
            state="problem",
            found=f"{init} is neither a folder nor a checkpoint on the hub",
            remedy="Name a train stage folder, a pretrained_model folder, or user/name on the hub.",
        )
    kept = _hub_cache() / f"models--{init.replace('/', '--')}" / "snapshots"
    if any(kept.glob("*/config.json")):
        return CheckResult(name=name, state="ok", found=f"{init}, in the hub's cache")
    if _is_offline():
        return CheckResult(
            name=name,
            state="problem",
            found=f"{init} is not on this machine, and HF_HUB_OFFLINE is set",
            remedy=f"Fetch it where there is a network: hf download {init}",
        )
    return CheckResult(
        name=name,
        state="warning",
        found=f"{init} is not on this machine: it is fetched from the hub before the training",
    )


def _hub_cache() -> Path:
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    return Path(os.environ.get("HF_HUB_CACHE", home / "hub")).expanduser()


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _dataset_info(source: DatasetSource) -> dict[str, Any] | None:
    """The dataset's description, where it is on this machine."""
    found = (folder for folder in _folders(source) if (folder / INFO).is_file())
    return next((read_info(folder) for folder in found), None)


def _folders(source: DatasetSource) -> Iterator[Path]:
    """Where LeRobot looks for a dataset, or keeps one that it fetched."""
    if source.root:
        yield Path(source.root)
        return
    hub = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    home = Path(os.environ.get("HF_LEROBOT_HOME", hub / "lerobot")).expanduser()
    yield home / source.repo_id
    kept = home / "hub" / f"datasets--{source.repo_id.replace('/', '--')}" / "snapshots"
    yield from sorted(kept.glob("*"))
