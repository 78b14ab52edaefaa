"""doctor: is this machine ready, and what to do if it is not."""

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from lefleet.cli.commands import DoctorCommand
from lefleet.cli.output import print_json
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_phases
from lefleet.compat import KNOWN_LEROBOT
from lefleet.devices import AUTO, CPU, DeviceReport
from lefleet.devices.ready import probe
from lefleet.errors import BadInput
from lefleet.loop.config import load_config
from lefleet.loop.findings import CheckResult, result_lines
from lefleet.loop.preflight import examine_config

GIGABYTE = 10**9
_GPU_REMEDY = (
    "Compare nvidia-smi with the CUDA version that PyTorch is built for, update the driver and "
    "reboot. Until then device: cpu works. See docs/gpu.md"
)
_REINSTALL = "Run: make .venv/.ready (or: pip install 'lefleet[all]')"


def run_doctor(command: DoctorCommand, overrides: Sequence[str] = ()) -> int:
    """Print every check; exit code 1 when there is a problem."""
    if command.systemd is not None:
        print(_unit(absolute(command.systemd, "systemd")))
        return 0
    if overrides and command.config is None:
        raise BadInput(f"{overrides[0]}: there is no config to override.", "Name one with -c.")
    config = load_config(command.config, overrides) if command.config else None
    checks = list(_checks(offline=command.offline))
    found: tuple[CheckResult, ...] = ()
    if config is not None:
        with show_phases(config.name, as_lines=command.json) as progress:
            workdir = absolute(command.workdir, "workdir")
            found = examine_config(workdir, config, progress).results
    if command.json:
        print_json([*checks, *found])
    else:
        for check in checks:
            print(f"{check.state:8} {check.name:10} {check.found}")
            if check.remedy:
                print(f"{'':8} {'':10} -> {check.remedy}")
        if found:
            print("\n".join(("", f"a run of {command.config}", *result_lines(found))))
    return 1 if any(check.state == "problem" for check in (*checks, *found)) else 0


def _unit(workdir: Path) -> str:
    """KillMode=process, because controllers are children of the unit's command and outlive it."""
    if any(mark in str(workdir) for mark in ('"', "\\", "%", "$", "\n")):
        raise BadInput(f"systemd: a unit cannot name {workdir}.", "Choose a plainer path.")
    return f"""\
# Save as ~/.config/systemd/user/lefleet.service
[Unit]
Description=LeFleet: resume the interrupted runs in {workdir}

[Service]
Type=oneshot
KillMode=process
ExecStart="{sys.executable}" -m lefleet resume --all --workdir "{workdir}"

# Save the rest as ~/.config/systemd/user/lefleet.timer, then:
#   systemctl --user enable --now lefleet.timer
#   loginctl enable-linger    (so that it starts without a login)
[Unit]
Description=LeFleet: after a start, and every ten minutes for approvals that timed out

[Timer]
OnStartupSec=0
OnUnitInactiveSec=10min

[Install]
WantedBy=timers.target"""


def _checks(*, offline: bool) -> Iterator[CheckResult]:
    yield _python()
    yield _package("lerobot", KNOWN_LEROBOT)
    yield _package("mujoco", _pinned("mujoco"))
    yield _graphics()
    yield gpu_check(probe(AUTO))
    yield _cores()
    yield _threads()
    yield _disk()
    if not offline:
        yield _hub()


def _python() -> CheckResult:
    found = platform.python_version()
    if sys.version_info[:2] == (3, 12):
        return CheckResult(name="python", state="ok", found=found)
    return CheckResult(
        name="python",
        state="problem",
        found=found,
        remedy="Install Python 3.12, for example: pyenv install 3.12",
    )


def _pinned(name: str) -> tuple[str, ...]:
    """Versions of `name` that lefleet's own metadata pins."""
    pins = (re.match(rf"{name}==([\w.]+)", line) for line in requires("lefleet") or ())
    return tuple(dict.fromkeys(pin[1] for pin in pins if pin))


def _package(name: str, tested: tuple[str, ...]) -> CheckResult:
    try:
        found = version(name)
    except PackageNotFoundError:
        return CheckResult(name=name, state="problem", found="not installed", remedy=_REINSTALL)
    if found in tested:
        return CheckResult(name=name, state="ok", found=found)
    return CheckResult(
        name=name,
        state="problem" if name == "mujoco" else "warning",
        found=f"{found}, tested with {', '.join(tested)}",
        remedy=f"Run: pip install {name}=={tested[-1]}",
    )


def _graphics() -> CheckResult:
    from lefleet.sim.render import GL_REMEDY, graphics_problem

    try:
        problem = graphics_problem()
    except ImportError as error:
        return CheckResult(name="graphics", state="problem", found=str(error), remedy=_REINSTALL)
    if problem is None:
        return CheckResult(
            name="graphics", state="ok", found=os.environ.get("MUJOCO_GL", "default")
        )
    return CheckResult(
        name="graphics",
        state="warning",
        found=f"no videos, no cameras: {problem}",
        remedy=GL_REMEDY,
    )


def gpu_check(report: DeviceReport) -> CheckResult:
    """What `device: auto` means on this machine, and why."""
    build = f"PyTorch {report.torch} for {report.built_for}" if report.torch else "no PyTorch"
    driver = f"NVIDIA driver {report.driver}" if report.driver else "no NVIDIA driver"
    if report.problem:
        return CheckResult(
            name="gpu",
            state="problem",
            found=f"{report.problem}; {driver}, {build}",
            remedy=_GPU_REMEDY if report.torch else _REINSTALL,
        )
    if report.device == CPU:
        return CheckResult(
            name="gpu", state="ok", found=f"none, so auto is the CPU; {driver}, {build}"
        )
    found = (
        f"{one}{f' with {one.free_bytes / GIGABYTE:.1f} GB free' if one.memory_bytes else ''}"
        for one in report.devices
    )
    tried = f"{report.device} computes ({report.matmul_ms:.2g} ms for a small product)"
    driver = f"{driver}, " if report.device != "mps" else ""
    return CheckResult(
        name="gpu", state="ok", found=f"{', '.join(found)}; {tried}; {driver}{build}"
    )


def _cores() -> CheckResult:
    from lefleet.rollouts import default_workers

    count = default_workers()
    if count > 1:
        return CheckResult(name="cores", state="ok", found=f"{count} available")
    return CheckResult(
        name="cores",
        state="warning",
        found="1 available",
        remedy="Rollouts run in parallel over cores; give this machine or container more.",
    )


def _threads() -> CheckResult:
    setting = os.environ.get("OMP_NUM_THREADS")
    if setting in (None, "1"):
        return CheckResult(name="threads", state="ok", found="1 per child process")
    return CheckResult(
        name="threads",
        state="warning",
        found=f"OMP_NUM_THREADS={setting} reaches every child process",
        remedy="Run: unset OMP_NUM_THREADS (LeFleet then sets one thread per child)",
    )


def _disk() -> CheckResult:
    free = shutil.disk_usage(Path.cwd()).free
    found = f"{free / GIGABYTE:.0f} GB free here"
    if free > 5 * GIGABYTE:
        return CheckResult(name="disk", state="ok", found=found)
    return CheckResult(
        name="disk",
        state="problem" if free < GIGABYTE else "warning",
        found=found,
        remedy="Free some space, or give stages an --out on another disk.",
    )


def _hub() -> CheckResult:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return CheckResult(name="hub", state="ok", found="not contacted: HF_HUB_OFFLINE is set")
    import urllib.request

    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    try:
        with urllib.request.urlopen(f"{address}/api/models?limit=1", timeout=3):  # noqa: S310
            return CheckResult(name="hub", state="ok", found=f"{address} answers")
    except (OSError, ValueError) as error:
        return CheckResult(
            name="hub",
            state="warning",
            found=f"{address} does not answer: {getattr(error, 'reason', error)}",
            remedy="Local datasets and checkpoints work. To skip retries: export HF_HUB_OFFLINE=1",
        )
