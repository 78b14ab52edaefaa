"""doctor: is this machine ready, and what to do if it is not."""

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import msgspec

from lefleet.cli.commands import DoctorCommand
from lefleet.cli.output import print_json
from lefleet.cli.parse import absolute
from lefleet.compat import KNOWN_LEROBOT
from lefleet.errors import BadInput

GIGABYTE = 10**9
_REINSTALL = "Run: make .venv/.ready (or: pip install 'lefleet[all]')"


class MachineCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One finding. `state` is ok, warning (works with less) or problem (does not work)."""

    name: str
    state: str
    found: str
    remedy: str = ""


def run_doctor(command: DoctorCommand) -> int:
    """Print every check; exit code 1 when there is a problem."""
    if command.systemd is not None:
        print(_unit(absolute(command.systemd, "systemd")))
        return 0
    checks = list(_checks(offline=command.offline))
    if command.json:
        print_json(checks)
    else:
        for check in checks:
            print(f"{check.state:8} {check.name:10} {check.found}")
            if check.remedy:
                print(f"{'':8} {'':10} -> {check.remedy}")
    return 1 if any(check.state == "problem" for check in checks) else 0


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


def _checks(*, offline: bool) -> Iterator[MachineCheck]:
    yield _python()
    yield _package("lerobot", KNOWN_LEROBOT)
    yield _package("mujoco", _pinned("mujoco"))
    yield _graphics()
    yield _cores()
    yield _threads()
    yield _disk()
    if not offline:
        yield _hub()


def _python() -> MachineCheck:
    found = platform.python_version()
    if sys.version_info[:2] == (3, 12):
        return MachineCheck(name="python", state="ok", found=found)
    return MachineCheck(
        name="python",
        state="problem",
        found=found,
        remedy="Install Python 3.12, for example: pyenv install 3.12",
    )


def _pinned(name: str) -> tuple[str, ...]:
    """Versions of `name` that lefleet's own metadata pins."""
    pins = (re.match(rf"{name}==([\w.]+)", line) for line in requires("lefleet") or ())
    return tuple(dict.fromkeys(pin[1] for pin in pins if pin))


def _package(name: str, tested: tuple[str, ...]) -> MachineCheck:
    try:
        found = version(name)
    except PackageNotFoundError:
        return MachineCheck(name=name, state="problem", found="not installed", remedy=_REINSTALL)
    if found in tested:
        return MachineCheck(name=name, state="ok", found=found)
    return MachineCheck(
        name=name,
        state="problem" if name == "mujoco" else "warning",
        found=f"{found}, tested with {', '.join(tested)}",
        remedy=f"Run: pip install {name}=={tested[-1]}",
    )


def _graphics() -> MachineCheck:
    from lefleet.sim.render import GL_REMEDY, graphics_problem

    try:
        problem = graphics_problem()
    except ImportError as error:
        return MachineCheck(name="graphics", state="problem", found=str(error), remedy=_REINSTALL)
    if problem is None:
        return MachineCheck(
            name="graphics", state="ok", found=os.environ.get("MUJOCO_GL", "default")
        )
    return MachineCheck(
        name="graphics",
        state="warning",
        found=f"no videos: {problem}",
        remedy=GL_REMEDY,
    )


def _cores() -> MachineCheck:
    from lefleet.rollouts import default_workers

    count = default_workers()
    if count > 1:
        return MachineCheck(name="cores", state="ok", found=f"{count} available")
    return MachineCheck(
        name="cores",
        state="warning",
        found="1 available",
        remedy="Rollouts run in parallel over cores; give this machine or container more.",
    )


def _threads() -> MachineCheck:
    setting = os.environ.get("OMP_NUM_THREADS")
    if setting in (None, "1"):
        return MachineCheck(name="threads", state="ok", found="1 per child process")
    return MachineCheck(
        name="threads",
        state="warning",
        found=f"OMP_NUM_THREADS={setting} reaches every child process",
        remedy="Run: unset OMP_NUM_THREADS (LeFleet then sets one thread per child)",
    )


def _disk() -> MachineCheck:
    free = shutil.disk_usage(Path.cwd()).free
    found = f"{free / GIGABYTE:.0f} GB free here"
    if free > 5 * GIGABYTE:
        return MachineCheck(name="disk", state="ok", found=found)
    return MachineCheck(
        name="disk",
        state="problem" if free < GIGABYTE else "warning",
        found=found,
        remedy="Free some space, or give stages an --out on another disk.",
    )


def _hub() -> MachineCheck:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return MachineCheck(name="hub", state="ok", found="not contacted: HF_HUB_OFFLINE is set")
    import urllib.request

    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    try:
        with urllib.request.urlopen(f"{address}/api/models?limit=1", timeout=3):  # noqa: S310
            return MachineCheck(name="hub", state="ok", found=f"{address} answers")
    except (OSError, ValueError) as error:
        return MachineCheck(
            name="hub",
            state="warning",
            found=f"{address} does not answer: {getattr(error, 'reason', error)}",
            remedy="Local datasets and checkpoints work. To skip retries: export HF_HUB_OFFLINE=1",
        )
