"""A run whose gate has ended: the files of a real comparison, and the rows that a controller would
have written."""

import shutil
from contextlib import closing
from pathlib import Path

import msgspec

from lefleet.constitution import Grants, stored
from lefleet.constitution.grants import OWN_SIMULATION
from lefleet.ledger import open_ledger
from lefleet.records import CompareRequest, EpisodeRecord, Request, decode
from lefleet.stages.folder import REQUEST, Journal, read_record
from tests.constitution.cases import config, rules

RUN, CYCLE = "demo", 1


def request_of(comparison: Path) -> CompareRequest:
    """What the comparison in a folder was asked."""
    return decode((comparison / REQUEST).read_bytes(), Request, REQUEST)


def copied(comparison: Path, folder: Path) -> Path:
    """A comparison in a folder of its own."""
    return Path(shutil.copytree(comparison, folder))


def gate_of_run(workdir: Path, comparison: Path, **changes) -> Path:
    """The gate's folder. `changes` are to the constitution, which allows what lies beside the
    comparison as it allows what is in the work folder."""
    gate = copied(comparison, workdir / RUN / f"cycle_{CYCLE}" / "gate")
    with Journal(gate / "episodes.jsonl", EpisodeRecord) as journal:
        commit(workdir, request_of(gate), read_record(gate), journal.lines, comparison, **changes)
    return gate


def commit(workdir: Path, request, record, episodes, comparison: Path, **changes) -> None:
    """The run and its gate in the ledger."""
    folders = (str(workdir), str(comparison.parent))
    allowed = rules(Grants(folders=folders, environments=(OWN_SIMULATION,)), **changes)
    workdir.mkdir(parents=True, exist_ok=True)
    with closing(open_ledger(workdir)) as ledger:
        fields = msgspec.to_builtins(config(name=RUN))
        ledger.create_run(RUN, fields, constitution=stored(allowed))
        attempt = ledger.start_attempt(RUN, CYCLE, "gate", request)
        ledger.commit_stage(attempt, record, episodes)
