"""Commands as a user types them, in this process."""

import logging
import signal
import sys

import msgspec
import pytest

from lefleet.cli import main
from lefleet.ledger import open_ledger
from lefleet.records import ExpertDemos
from tests.ledger.ledgers import REQUEST
from tests.loop.states import config, decision, digest, record
from tests.policy import tiny
from tests.samples import checkpoint_record


@pytest.fixture
def lefleet(monkeypatch, capsys, tmp_path):
    """Runs the command in tmp_path; returns its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lefleet", *arguments])
        try:
            code = main()
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    yield run
    root = logging.getLogger()
    for handler in [one for one in root.handlers if type(one) is logging.StreamHandler]:
        # It writes to a stderr that ends with this test.
        root.removeHandler(handler)


@pytest.fixture
def two_runs(tmp_path):
    """A ledger with a finished run of one decided and one begun cycle, and an empty one."""
    ledger = open_ledger(tmp_path / "runs")
    ledger.create_run("a", msgspec.to_builtins(config(name="a")))
    for cycle, stage in ((0, "collect"), (0, "train"), (0, "evaluate"), (1, "collect")):
        attempt = ledger.start_attempt("a", cycle, stage, REQUEST)
        ledger.commit_stage(attempt, record(cycle, stage))
    ledger.record_decision("a", decision(0, "baseline", "c0"))
    ledger.set_run_state("a", "finished", "done")
    ledger.create_run("b", msgspec.to_builtins(config(name="b")))
    ledger.set_run_state("b", "stopped", "by lefleet stop")
    yield ledger
    ledger.close()


@pytest.fixture(scope="session")
def blessed_workdir(tmp_path_factory):
    """Of four runs the second one is the last with a blessed checkpoint: that of cycle 0; cycle 1
    was worse. The newest one was started by another version. The folder has a name that YAML would
    read as something else."""
    workdir = tmp_path_factory.mktemp("a: b")
    ledger = open_ledger(workdir)
    for name in ("older", "demo", "unfinished"):
        ledger.create_run(name, msgspec.to_builtins(config(name=name)))
    for name, cycle, outcome in (
        ("older", 0, "baseline"),
        ("demo", 0, "baseline"),
        ("demo", 1, "rollback"),
    ):
        folder = workdir / name / f"cycle_{cycle}" / "train"
        folder.mkdir(parents=True)
        attempt = ledger.start_attempt(name, cycle, "train", ExpertDemos())
        ledger.commit_stage(attempt, checkpoint_record(digest=digest(cycle), path=str(folder)))
        ledger.record_decision(name, decision(cycle, outcome, digest(0)))
    ledger.create_run("foreign", {"name": "foreign", "colour": "red"})
    ledger.close()
    tiny.act_environment(workdir / "demo/cycle_0/train")
    return workdir


@pytest.fixture
def default_hangup():
    """The tests may run under nohup, and children inherit that SIGHUP is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
