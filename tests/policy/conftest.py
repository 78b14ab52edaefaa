"""Tiny checkpoints and policies, made once for all tests of a worker."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from lefleet.policy import ModelSettings, ServedPolicy, load_policy
from tests.policy import tiny


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a checkpoint of `tiny`, by its builder's name; tests do not change it."""

    @cache
    def made(name: str) -> Path:
        return getattr(tiny, name)(tmp_path_factory.mktemp(name))

    return made


@pytest.fixture(scope="session")
def policy_of(checkpoint_of) -> Callable[[str], ServedPolicy]:
    """The same, loaded."""

    @cache
    def loaded(name: str) -> ServedPolicy:
        return load_policy(model(checkpoint_of(name)))

    return loaded


def model(folder: Path, **changes) -> ModelSettings:
    values = {"repo_or_path": str(folder), "discover_packages": (tiny.PLUGINS,)}
    return ModelSettings(**values | changes)
