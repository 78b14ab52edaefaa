"""Extras of LeRobot: the table agrees with LeRobot and with the locks, and names the command."""

import ast
import re
from importlib.metadata import metadata
from pathlib import Path

import pytest

from lefleet.errors import BadInput
from lefleet.stages import extras

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)


def pins(lock: Path) -> dict[str, str]:
    return dict(PIN.findall(lock.read_text()))


def test_every_extra_that_is_offered_has_a_lock_and_no_other():
    assert sorted(file.stem for file in (ROOT / "locks").iterdir()) == list(extras.LOCKED)


@pytest.mark.parametrize("name", extras.LOCKED)
def test_a_lock_adds_to_the_main_one_and_agrees_with_all_others(name):
    """So that any of them can be installed together."""
    own = pins(ROOT / "locks" / f"{name}.lock")
    assert own
    assert own.keys().isdisjoint(pins(ROOT / "requirements.lock"))
    for other in extras.LOCKED:
        theirs = pins(ROOT / "locks" / f"{other}.lock")
        assert {k: v for k, v in theirs.items() if k in own and own[k] != v} == {}


def test_transformers_are_in_no_environment_that_does_not_ask_for_them():
    """Every LeRobot process would take seconds longer to start."""
    assert "transformers" not in pins(ROOT / "requirements.lock")
    assert "transformers" in pins(ROOT / "locks" / "smolvla.lock")


def test_the_table_names_extras_families_and_environments_that_lerobot_has():
    from lerobot import envs
    from lerobot.policies import factory

    known = set(metadata("lerobot").get_all("Provides-Extra"))
    table = {**extras._ENVIRONMENTS, **extras._POLICIES}
    assert {extra.name for extra in table.values()} <= known
    types = registered(Path(envs.__file__).parent) | registered(Path(factory.__file__).parent)
    assert set(table) <= types


def registered(folder: Path) -> set[str]:
    """Names of `register_subclass` in the modules of a folder, without importing them."""
    calls = (
        node
        for file in folder.rglob("config*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "register_subclass"
    )
    values = (node.args[0] if node.args else node.keywords[0].value for node in calls)
    return {value.value for value in values if isinstance(value, ast.Constant)}


def test_what_is_missing_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"evaluate\.env: pusht needs gym_pusht") as refused:
        extras.require_environment("pusht", "evaluate.env")
    assert refused.value.remedy == "Run: make env"
    with pytest.raises(BadInput, match="aloha needs gym_aloha") as refused:
        extras.require_environment("aloha", "evaluate.env")
    assert refused.value.remedy == 'Run: make env EXTRAS="aloha"'
    with pytest.raises(BadInput, match="needs transformers, diffusers, tree") as refused:
        extras.require_policy("groot", "ladder[0].policy_type")
    assert "--constraint requirements.lock 'lerobot[groot]'" in refused.value.remedy
    monkeypatch.setattr(extras, "_CHECKOUT", Path("/nowhere"))
    with pytest.raises(BadInput, match="needs transformers") as refused:
        extras.require_policy("pi05", "ladder[0].policy_type")
    assert refused.value.remedy == "Run: pip install 'lerobot[pi]>=0.6.1,<0.7'"


def test_what_is_here_or_needs_nothing_is_not_refused():
    extras.require_environment("pusht", "env")
    extras.require_environment("metaworld", "env")
    extras.require_environment("somebodys_own", "env")
    extras.require_policy("act", "policy_type")
