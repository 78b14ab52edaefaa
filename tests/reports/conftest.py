"""A run in a work folder of its own, made of the folders of real stages."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lefleet.actions.films import find_gate, make_films
from lefleet.ledger import Ledger, open_ledger
from lefleet.queries.runs import RunReader
from lefleet.records import EpisodeRecord, EvaluateRequest, Request, decode
from lefleet.stages.folder import REQUEST, Journal, read_record
from tests.conftest import TASKS
from tests.gates import CYCLE, RUN, gate_of_run
from tests.loop.states import decision
from tests.stages.test_compare import request


@pytest.fixture(scope="session")
def workdir(once: Callable, demos, checkpoint, weak, tmp_path_factory) -> Path:
    """Two cycles: the first checkpoint is hardly trained, the second one beats it. One pair and one
    episode of each task are filmed."""
    comparison = once(request(checkpoint, weak), "comparison")
    workdir = tmp_path_factory.mktemp("reported") / "runs"
    gate_of_run(workdir, comparison)
    evaluated = {
        name: once(
            EvaluateRequest(
                checkpoint=str(of), tasks=TASKS, episodes_per_task=1, videos_per_task=1
            ),
            f"filmed-{name}",
        )
        for name, of in (("weak", weak), ("checkpoint", checkpoint))
    }
    with closing(open_ledger(workdir)) as ledger:
        for cycle, name, trained in ((0, "weak", weak), (CYCLE, "checkpoint", checkpoint)):
            _commit(ledger, workdir, cycle, "collect", demos)
            _commit(ledger, workdir, cycle, "train", trained)
            _commit(ledger, workdir, cycle, "evaluate", evaluated[name])
        first, second = (read_record(one).digest for one in (weak, checkpoint))
        won = read_record(comparison).gate
        outcomes = (("baseline", first, None), ("promote", second, won))
        for cycle, (outcome, digest, gate) in enumerate(outcomes):
            ledger.record_decision(
                RUN,
                decision(cycle, outcome, digest, candidate=digest, gate=gate, why=f"why {outcome}"),
            )
        ledger.set_run_state(RUN, "finished", "all 2 cycles are done")
    found = find_gate(workdir, RUN, CYCLE)
    (film,) = make_films(found, found.chosen(1), "anna")
    assert film.state == "made", film.problem
    return workdir


def _commit(ledger: Ledger, workdir: Path, cycle: int, stage: str, done: Path) -> None:
    folder = workdir / RUN / f"cycle_{cycle}" / stage
    folder.mkdir(parents=True)
    episodes: tuple[EpisodeRecord, ...] = ()
    if stage == "evaluate":
        shutil.copytree(done / "videos", folder / "videos")
        with Journal(done / "episodes.jsonl", EpisodeRecord) as journal:
            episodes = tuple(journal.lines)
    asked = decode((done / REQUEST).read_bytes(), Request, REQUEST)
    attempt = ledger.start_attempt(RUN, cycle, stage, asked)
    ledger.commit_stage(attempt, read_record(done), episodes)


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
