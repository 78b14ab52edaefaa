"""Shared artifacts, made once: a small dataset, a half-trained checkpoint, tiny policies."""

import fcntl
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lefleet import ExpertDemos, TrainRequest, run_stage

if TYPE_CHECKING:
    from lefleet.policy import ServedPolicy

TASKS = ("push", "pick-place", "door-open")


@pytest.fixture(scope="session", autouse=True)
def children_without_diffusers() -> None:
    """See tests/children/sitecustomize.py."""
    inherited = os.environ.get("PYTHONPATH", "")
    folder = str(Path(__file__).parent / "children")
    os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{inherited}" if inherited else folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all test workers of this session see."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def once(shared: Path) -> Callable:
    """Runs a stage in the shared folder: the first worker does the work, others wait for it."""

    def run(request, name: str) -> Path:
        with (shared / f"{name}.once").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run_stage(request, shared / name)
        return shared / name

    return run


@pytest.fixture(scope="session")
def demos(once: Callable) -> Path:
    """Five demonstrations of each easy task."""
    return once(ExpertDemos(tasks=TASKS, episodes_per_task=5), "demos")


@pytest.fixture(scope="session")
def checkpoint(once: Callable, demos: Path) -> Path:
    """A policy that succeeds sometimes: good enough to be right, bad enough to fail."""
    return once(TrainRequest(dataset=str(demos), tasks=TASKS, steps=600), "checkpoint")


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a checkpoint of `tiny`, by its builder's name; tests do not change it."""
    from tests.policy import tiny

    @cache
    def made(name: str) -> Path:
        return getattr(tiny, name)(tmp_path_factory.mktemp(name))

    return made


@pytest.fixture(scope="session")
def policy_of(checkpoint_of: Callable[[str], Path]) -> "Callable[[str], ServedPolicy]":
    """The same, loaded."""
    from lefleet.policy import load_policy
    from tests.policy import tiny

    @cache
    def loaded(name: str) -> "ServedPolicy":
        return load_policy(tiny.model(checkpoint_of(name)))

    return loaded
