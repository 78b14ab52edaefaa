"""Constitutions, rules and command lines that several tests use."""

import sys
from pathlib import Path
from typing import Any

import msgspec

from lefleet.constitution import (
    Constitution,
    ConstitutionSource,
    Grants,
    Rules,
    packaged,
    rules_for_grants,
)
from lefleet.constitution.schema import parse
from lefleet.records import ExpertGrowth, RunConfig, Rung

TRAIN = (sys.executable, "-m", "lerobot.scripts.lerobot_train")
OWN_TRAIN = (sys.executable, "-m", "lefleet.compat.train")


def constitution(**changes: Any) -> Constitution:
    """The one that comes with LeFleet, with these fields as YAML has them."""
    fields = msgspec.to_builtins(packaged()) | changes
    return parse(fields, "test.yaml")


def source(**changes: Any) -> ConstitutionSource:
    return ConstitutionSource("test.yaml", constitution(**changes))


def rules(grants: Grants | None = None, **changes: Any) -> Rules:
    """Rules of a run with a folder of its own."""
    return rules_for_grants(source(**changes), grants or Grants())


def config(**changes: Any) -> RunConfig:
    fields = {"name": "r", "ladder": (Rung(name="one"),), "collect": ExpertGrowth()}
    return RunConfig(**fields | changes)


def dataset(folder: Path) -> Path:
    """A folder that LeRobot takes for a complete dataset, as far as rules look."""
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text("{}")
    return folder
