"""A run in a work folder of its own, made of the folders of real stages."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lefleet.actions.films import find_gate, make_films
from lefleet.ledger import open_ledger
from lefleet.queries.runs import RunReader
from tests.gates import CYCLE, RUN, Stages, run_of_two_cycles


@pytest.fixture(scope="session")
def workdir(stages_of_two_cycles: Stages, filled_once: Callable) -> Path:
    """Two cycles: the first checkpoint is hardly trained, the second one beats it. One pair and one
    episode of each task are filmed."""

    def fill(folder: Path) -> None:
        run_of_two_cycles(folder / "runs", stages_of_two_cycles, "promote")
        found = find_gate(folder / "runs", RUN, CYCLE)
        (film,) = make_films(found, found.chosen(1), "anna")
        assert film.state == "made", film.problem

    return filled_once("reported", fill) / "runs"


@pytest.fixture
def copied(workdir, tmp_path) -> Path:
    """The same in a folder that a test may change."""
    return Path(shutil.copytree(workdir, tmp_path / "runs"))


@pytest.fixture
def reader_of():
    """Readers of work folders, whose ledgers are closed in the end."""
    ledgers = []

    def reader(folder: Path) -> RunReader:
        ledgers.append(open_ledger(folder))
        return RunReader(lambda: ledgers[-1], folder)

    yield reader
    for ledger in ledgers:
        ledger.close()
