"""A run whose gate has ended: the files of a real comparison, and the rows that a controller would
have written."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from lefleet.constitution import Grants, stored
from lefleet.constitution.grants import OWN_SIMULATION
from lefleet.ledger import Ledger, open_ledger
from lefleet.records import EpisodeRecord, Request, decode
from lefleet.stages.folder import REQUEST, Journal, read_record
from tests.constitution.cases import config, rules
from tests.loop.states import decision

RUN, CYCLE = "demo", 1


def request_of(done: Path) -> Request:
    """What the stage in a folder was asked."""
    return decode((done / REQUEST).read_bytes(), Request, REQUEST)


def copied(comparison: Path, folder: Path) -> Path:
    """A comparison in a folder of its own."""
    return Path(shutil.copytree(comparison, folder))


def gate_of_run(workdir: Path, comparison: Path, run: str = RUN, **changes) -> Path:
    """The gate's folder. `changes` are to the constitution, which allows what lies beside the
    comparison as it allows what is in the work folder."""
    gate = copied(comparison, workdir / run / f"cycle_{CYCLE}" / "gate")
    with Journal(gate / "episodes.jsonl", EpisodeRecord) as journal:
        judged = request_of(gate), read_record(gate), journal.lines
        commit(workdir, *judged, comparison, run, **changes)
    return gate


def commit(
    workdir: Path, request, record, episodes, comparison: Path, run: str = RUN, **changes
) -> None:
    """The run and its gate in the ledger."""
    folders = (str(workdir), str(comparison.parent))
    allowed = rules(Grants(folders=folders, environments=(OWN_SIMULATION,)), **changes)
    workdir.mkdir(parents=True, exist_ok=True)
    with closing(open_ledger(workdir)) as ledger:
        fields = msgspec.to_builtins(config(name=run))
        ledger.create_run(run, fields, constitution=stored(allowed))
        attempt = ledger.start_attempt(run, CYCLE, "gate", request)
        ledger.commit_stage(attempt, record, episodes)


class Stages(NamedTuple):
    """Folders of stages that were run: the checkpoint of the second cycle was compared with that of
    the first one."""

    demos: Path
    trained: tuple[Path, Path]
    evaluated: tuple[Path, Path]
    comparison: Path


def run_of_two_cycles(workdir: Path, made: Stages, outcome: str, run: str = RUN) -> None:
    """A run that has ended with this decision about its second candidate, made of the folders of
    real stages."""
    gate_of_run(workdir, made.comparison, run)
    with closing(open_ledger(workdir)) as ledger:
        for cycle in range(CYCLE + 1):
            for stage, folder in (
                ("collect", made.demos),
                ("train", made.trained[cycle]),
                ("evaluate", made.evaluated[cycle]),
            ):
                _commit_stage(ledger, workdir / run / f"cycle_{cycle}" / stage, run, folder)
        first, second = (read_record(one).digest for one in made.trained)
        judged = read_record(made.comparison).gate
        blessed = second if outcome == "promote" else first
        for cycle, decided, candidate, best, gate in (
            (0, "baseline", first, first, None),
            (CYCLE, outcome, second, blessed, judged),
        ):
            why = f"why {decided}"
            ledger.record_decision(
                run, decision(cycle, decided, best, candidate=candidate, gate=gate, why=why)
            )
        ledger.set_run_state(run, "finished", "all 2 cycles are done")


def _commit_stage(ledger: Ledger, folder: Path, run: str, done: Path) -> None:
    stage, cycle = folder.name, int(folder.parent.name.removeprefix("cycle_"))
    folder.mkdir(parents=True)
    episodes: tuple[EpisodeRecord, ...] = ()
    if stage == "evaluate":
        shutil.copytree(done / "videos", folder / "videos")
        with Journal(done / "episodes.jsonl", EpisodeRecord) as journal:
            episodes = tuple(journal.lines)
    attempt = ledger.start_attempt(run, cycle, stage, request_of(done))
    ledger.commit_stage(attempt, read_record(done), episodes)
