"""What a simulation or a policy family of LeRobot needs beside LeFleet's own packages, and the
command that installs it."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from lefleet.errors import NotInstalled

LOCKED = ("aloha", "libero", "peft", "pi", "smolvla", "xvla")
"""Extras of LeRobot with a lock of their own: locks/EXTRA.lock in a checkout."""
INCLUDED = ("diffusion", "metaworld", "pusht")
"""Those that requirements.lock has."""
_CHECKOUT = Path(__file__).parents[3]
_TRANSFORMERS = ("transformers",)


class LeRobotExtra(NamedTuple):
    """One of LeRobot's extras, and what it brings."""

    name: str
    modules: tuple[str, ...]


_ENVIRONMENTS = {
    "aloha": LeRobotExtra("aloha", ("gym_aloha",)),
    "libero": LeRobotExtra("libero", ("libero",)),
    "metaworld": LeRobotExtra("metaworld", ("metaworld",)),
    "pusht": LeRobotExtra("pusht", ("gym_pusht",)),
}
_POLICIES = {
    "diffusion": LeRobotExtra("diffusion", ("diffusers",)),
    "eo1": LeRobotExtra("eo1", _TRANSFORMERS),
    "evo1": LeRobotExtra("evo1", _TRANSFORMERS),
    "fastwam": LeRobotExtra("fastwam", ("transformers", "diffusers")),
    "gaussian_actor": LeRobotExtra("hilserl", _TRANSFORMERS),
    "groot": LeRobotExtra("groot", ("transformers", "diffusers", "tree")),
    "lingbot_va": LeRobotExtra("lingbot-va", ("transformers", "diffusers")),
    "molmoact2": LeRobotExtra("molmoact2", ("transformers", "scipy")),
    "multi_task_dit": LeRobotExtra("multi-task-dit", ("transformers", "diffusers")),
    "pi0": LeRobotExtra("pi", _TRANSFORMERS),
    "pi05": LeRobotExtra("pi", _TRANSFORMERS),
    "pi0_fast": LeRobotExtra("pi", ("transformers", "scipy")),
    "smolvla": LeRobotExtra("smolvla", ("transformers", "num2words")),
    "vla_jepa": LeRobotExtra("vla-jepa", ("transformers", "diffusers")),
    "wall_x": LeRobotExtra("wallx", ("transformers", "peft", "torchdiffeq", "qwen_vl_utils")),
    "xvla": LeRobotExtra("xvla", _TRANSFORMERS),
}


def extra_of_environment(env_type: str) -> LeRobotExtra | None:
    """What `--env.type` needs; None where that is nothing, or not known here."""
    return _ENVIRONMENTS.get(env_type)


def extra_of_policy(policy_type: str) -> LeRobotExtra | None:
    """What a policy family needs; None where that is nothing, or not known here."""
    return _POLICIES.get(policy_type)


def missing(extra: LeRobotExtra | None) -> list[str]:
    """Modules of an extra that are not installed."""
    return [name for name in extra.modules if find_spec(name) is None] if extra else []


def install_command(extras: Iterable[LeRobotExtra]) -> str:
    """What a person types to install all of them, under the pins of this LeFleet where it has
    them; empty where there are none."""
    names = dict.fromkeys(one.name for one in extras)
    if not names:
        return ""
    if not (_CHECKOUT / "locks").is_dir():
        return f"pip install 'lerobot[{','.join(names)}]>=0.6.1,<0.7'"
    locked = [name for name in names if name in LOCKED]
    others = [name for name in names if name not in (*LOCKED, *INCLUDED)]
    commands = []
    if locked:
        commands.append(f'make env EXTRAS="{" ".join(locked)}"')
    elif len(others) < len(names):
        commands.append("make env")
    if others:
        commands.append(
            "scripts/uv pip install --python .venv/bin/python --constraint requirements.lock "
            f"'lerobot[{','.join(others)}]'"
        )
    return " && ".join(commands)


def require_environment(env_type: str, field: str) -> None:
    """Raise NotInstalled where a package of a simulation is missing."""
    _require(extra_of_environment(env_type), f"{field}: {env_type}")


def require_policy(policy_type: str, field: str) -> None:
    """Raise NotInstalled where a package of a policy family is missing."""
    _require(extra_of_policy(policy_type), f"{field}: {policy_type}")


def _require(extra: LeRobotExtra | None, who: str) -> None:
    if extra is not None and (gone := missing(extra)):
        raise NotInstalled(
            f"{who} needs {', '.join(gone)}, which is not installed.",
            f"Run: {install_command([extra])}",
        )
