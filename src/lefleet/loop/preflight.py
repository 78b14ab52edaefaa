"""What is tried out before a run begins or continues, so that it does not fail hours later.

`lefleet run`, `run --plan` and `doctor -c` make the same checks. An environment of LeRobot is made
in a child process; for runs in LeFleet's own simulation one is started only to render an image,
where policies see.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from lefleet.constitution import Rules, installed
from lefleet.devices import AUTO, CPU, ready_device
from lefleet.errors import BadInput, LedgerUnavailable, NotInstalled
from lefleet.executors.checks import examine_cluster, require_reachable
from lefleet.ledger import read_ledger
from lefleet.ledger.connect import require_ledger
from lefleet.loop.findings import CheckResult, Preflight, refused
from lefleet.loop.inputs import data_found, dataset_info, start_found
from lefleet.loop.rules import begin_rules, launch_rules
from lefleet.loop.training import family_of, installed_family, require_inputs, require_suitable
from lefleet.process import NoReport, ask
from lefleet.records import DatasetSource, ExpertGrowth, RunConfig
from lefleet.records.executor import ExecutorPlan
from lefleet.sim.render import CameraSizes
from lefleet.stages.cameras import asked_cameras, recorded_cameras, require_rendering
from lefleet.stages.environment_probe import EnvironmentReport
from lefleet.stages.extras import (
    extra_of_environment,
    extra_of_policy,
    install_command,
    missing,
    require_environment,
)
from lefleet.stages.fitting import misfits
from lefleet.stages.progress import Progress, Update, silent
from lefleet.stages.references import checkpoint_folder

_PATIENCE_S = 600.0
"""For importing LeRobot on a busy machine, and for a simulator that builds its scene."""


def examine_config(workdir: Path, config: RunConfig, progress: Progress = silent) -> Preflight:
    """Look at all that a run of this config needs. Denied where the rules do not allow it."""
    rules = begin_rules(workdir, config, None)
    device, ready = _device(workdir, config, progress)
    found = (
        device,
        *_ledger(workdir, config),
        *_cluster(workdir, config, rules, progress),
        *_parts(config, rules, progress),
    )
    return Preflight(config=ready, results=tuple(dict.fromkeys(found)))


def ready_config(workdir: Path, config: RunConfig, progress: Progress = silent) -> Preflight:
    """As `examine_config`, for a run that is to begin. One of that name that has begun is not
    examined again: its device is tried when it is resumed."""
    if not _has_begun(workdir, config.name):
        return examine_config(workdir, config, progress)
    known = with_ready_device(workdir, config, progress) if config.device == AUTO else config
    return Preflight(config=known, results=())


def with_ready_device(workdir: Path, config: RunConfig, progress: Progress = silent) -> RunConfig:
    """The config with the device that it means on this machine, tried out; BadInput where that, or
    the cluster that has it, cannot be used."""
    if not config.executor.is_here:
        progress(Update.phase("asking the cluster"))
        require_reachable(config.executor)
        return config
    if config.device == CPU:
        return config
    progress(Update.phase(f"trying the device {config.device}"))
    with installed(launch_rules(workdir)):
        return msgspec.structs.replace(config, device=ready_device(config.device, "device"))


def _device(workdir: Path, config: RunConfig, progress: Progress) -> tuple[CheckResult, RunConfig]:
    if not config.executor.is_here:
        found = f"{config.device}, on the nodes, where it was not tried"
        return CheckResult(name="device", state="ok", found=found), config
    try:
        ready = with_ready_device(workdir, config, progress)
    except BadInput as error:
        found = error.problem.removeprefix("device: ").removesuffix(".")
        problem = CheckResult(name="device", state="problem", found=found, remedy=error.remedy)
        return problem, config
    meant = f"{config.device} is {ready.device}" if config.device == AUTO else ready.device
    return CheckResult(name="device", state="ok", found=meant), ready


def _cluster(
    workdir: Path, config: RunConfig, rules: Rules, progress: Progress
) -> Iterator[CheckResult]:
    """Whether every node can carry out stages, where a cluster does."""
    if config.executor.is_here:
        if config.executor != ExecutorPlan():
            yield CheckResult(
                name="executor.type",
                state="warning",
                found="local: stages work on this machine, and the rest of executor is ignored",
                remedy="For a cluster: executor.type: ray",
            )
        return
    progress(Update.phase("trying every node of the cluster"))
    try:
        with installed(rules):
            findings = examine_cluster(config.executor, workdir, config.device)
    except BadInput as error:
        yield refused(error)
        return
    yield CheckResult(name="executor.address", state="ok", found=findings.found)
    if not findings.asks_for_token:
        yield CheckResult(
            name="executor.token_file",
            state="warning",
            found="the cluster asks for no token: who reaches its port can run any program there",
            remedy="Start its nodes with RAY_AUTH_MODE=token. See docs/clusters.md",
        )


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
        info = dataset_info(source)
        yield data_found(config, source, info)
    for number, rung in enumerate(config.ladder):
        field = f"ladder[{number}]"
        if rung.init:
            start = start_found(f"{field}.init", rung.init)
            yield start
            if start.state == "problem":
                continue
        try:
            require_suitable(config, rung, field)
        except BadInput as error:
            yield refused(error)
        try:
            family = installed_family(rung, field)
        except NotInstalled as error:
            yield _not_installed(config, error)
        except BadInput as error:
            yield refused(error)
        else:
            yield CheckResult(name=f"{field}.policy_type", state="ok", found=family)
    cameras = {} if config.evaluate.env else _rendered(source, info)
    if cameras and not config.executor.is_here:
        found = f"{', '.join(cameras)}, by the nodes, where it was not tried"
        yield CheckResult(name="collect.cameras", state="warning", found=found)
    elif cameras:
        progress(Update.phase("rendering once, to see whether that works"))
        yield _cameras(cameras, rules)
    if config.evaluate.env:
        try:
            require_environment(config.evaluate.env.get("type", ""), "evaluate.env.type")
        except NotInstalled as error:
            yield _not_installed(config, error)
            return
        progress(Update.phase("making the environment once, to look at it"))
        yield from _environment(config, info, rules)


def _not_installed(config: RunConfig, error: NotInstalled) -> CheckResult:
    """With the one command that installs all that is missing."""
    families = []
    for number, rung in enumerate(config.ladder):
        with suppress(BadInput):
            families.append(family_of(rung, f"ladder[{number}]")[0])
    extras = [extra_of_policy(one) for one in families]
    extras.append(extra_of_environment(config.evaluate.env.get("type", "")))
    wanted = [one for one in extras if one is not None and missing(one)]
    return msgspec.structs.replace(refused(error), remedy=f"Run: {install_command(wanted)}")


def _rendered(source: ExpertGrowth | DatasetSource, info: dict[str, Any] | None) -> CameraSizes:
    """Cameras of LeFleet's simulation that the run's policies see, as far as that is known."""
    if isinstance(source, ExpertGrowth):
        return asked_cameras(source)
    return recorded_cameras(info) if info else {}


def _cameras(cameras: CameraSizes, rules: Rules) -> CheckResult:
    """Whether they can be rendered."""
    try:
        with installed(rules):
            require_rendering(cameras, "collect.cameras")
    except BadInput as error:
        return refused(error)
    found = ", ".join(f"{name} {size.height} x {size.width}" for name, size in cameras.items())
    return CheckResult(name="collect.cameras", state="ok", found=f"can be rendered: {found}")


def _environment(
    config: RunConfig, info: dict[str, Any] | None, rules: Rules
) -> Iterator[CheckResult]:
    """Whether it can be made, and fits the data, or the checkpoints to start from, where they are
    known."""
    env = config.evaluate.env
    report = _ask_about(env, rules)
    kind = env.get("type", "")
    if report.problem:
        yield refused(BadInput(report.problem, report.remedy), "evaluate.")
        return
    if report.description is None:
        found = f"{kind} is known, and was not made"
        yield CheckResult(name="evaluate.env", state="warning", found=found)
        return
    seen = report.description
    tasks = f"{len(seen.tasks)} task{'s' if len(seen.tasks) > 1 else ''}"
    found = f"{kind}: {tasks}, {seen.fps} steps per second"
    yield CheckResult(name="evaluate.env", state="ok", found=found)
    if not isinstance(config.collect, DatasetSource):
        yield from _starts(config, seen.observations)
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


def _starts(
    config: RunConfig, observations: Mapping[str, tuple[int, ...]]
) -> Iterator[CheckResult]:
    """Checkpoints to start from that take what this environment does not show."""
    features = {key: {"shape": shape} for key, shape in observations.items()}
    for number, rung in enumerate(config.ladder):
        field = f"ladder[{number}]"
        try:
            folder = checkpoint_folder(rung.init, f"{field}.init") if rung.init else None
            if folder is not None:
                require_inputs(folder, features, rung, field, "the environment")
        except BadInput as error:
            yield refused(error)


def _ask_about(env: dict[str, str], rules: Rules) -> EnvironmentReport:
    """What a child process finds, also where it hangs or crashes."""
    flags = [f"--env.{name}={value}" for name, value in env.items()]
    argv = (sys.executable, "-m", "lefleet", "environment", "probe", *flags)
    try:
        with installed(rules):
            return ask(argv, EnvironmentReport, _PATIENCE_S)
    except NoReport as error:
        return EnvironmentReport(problem=f"env: a trial of {env.get('type', '')} {error}.")
