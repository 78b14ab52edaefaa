"""Two machines, one controller: one that was suspended finds that it may write no longer."""

import signal
import subprocess
import sys
from contextlib import closing
from socket import gethostname
from unittest.mock import ANY

import msgspec
import pytest
from psycopg import OperationalError

from lefleet.constitution import stored
from lefleet.ledger import open_ledger
from lefleet.loop import controller
from lefleet.loop.controller import Controller
from lefleet.loop.rules import begin_rules
from lefleet.records import ApprovalPlan, Budgets, Rung
from lefleet.stages.folder import is_locked
from tests.ledger.ledgers import REQUEST, everything, execute
from tests.loop.fuzz import assert_journal_equals_table, tiny_config
from tests.loop.states import config, proposal
from tests.loop.test_end_to_end import wait_for
from tests.waiting import Waiting

CONTROL = """
import socket, sys
socket.gethostname = lambda: sys.argv[3]
from pathlib import Path
from lefleet.ledger import lease
from lefleet.loop import limits
from lefleet.process import liveness
liveness._machine = lambda: sys.argv[3]
limits.MAX_BACKOFF_S = 1e9
lease.LEASE_S = float(sys.argv[4])
from lefleet.cli.runs import control
sys.exit(control(Path(sys.argv[1]), sys.argv[2]))
"""
"""The program of a controller, on a machine and with a lease that the test names."""


class Machines:
    """Controllers of one run, each on a machine of its own, as far as they can tell."""

    def __init__(self, workdir) -> None:
        self._argv = [sys.executable, "-c", CONTROL, str(workdir), "r"]
        self._log = (workdir / "machines.log").open("w+")
        self._children = []

    def start(self, host: str, lease_s: float) -> subprocess.Popen:
        argv = [*self._argv, host, str(lease_s)]
        child = subprocess.Popen(argv, stdout=self._log, stderr=self._log)
        self._children.append(child)
        return child

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def close(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()
        self._log.close()


@pytest.fixture
def machines(tmp_path):
    made = Machines(tmp_path)
    yield made
    made.close()


@pytest.fixture
def ledger(tmp_path, database):
    """Of a run whose stage was killed so often that its controller waits before the next try."""
    with closing(open_ledger(tmp_path, database)) as opened:
        rules = stored(begin_rules(tmp_path, config(), None))
        opened.create_run("r", msgspec.to_builtins(config()), None, rules)
        opened.record_proposal("r", proposal(0, config()))
        for _ in range(25):
            attempt = opened.start_attempt("r", 0, "collect", REQUEST)
            opened.end_attempt(attempt, "gone", "killed")
        yield opened


def test_a_suspended_controller_that_comes_back_writes_nothing_and_exits(
    ledger, machines, tmp_path
):
    first = machines.start("here", 1.0)
    wait_for(lambda: ledger.controllers.host("r") == "here", "the first controller")
    wait_for((tmp_path / "r" / "events.jsonl").exists, "its work")
    idle = machines.start("there", 60.0)
    assert idle.wait() == 0, "it finds a controller, and leaves"
    first.send_signal(signal.SIGSTOP)
    wait_for(lambda: ledger.controllers.host("r") is None, "the end of its lease")
    with closing(open_ledger(tmp_path)) as taker, taker.controllers.hold("r") as is_mine:
        assert is_mine, "this test is the controller now, and does nothing"
        before, written = everything(tmp_path), (tmp_path / "r" / "events.jsonl").read_bytes()
        first.send_signal(signal.SIGCONT)
        assert first.wait() == 1
        said = machines.log().splitlines()[-1]
        assert f"on {gethostname()} has taken over r: this one on here had not renewed" in said
        assert "Traceback" not in machines.log()
        assert everything(tmp_path) == before
        assert (tmp_path / "r" / "events.jsonl").read_bytes() == written
        assert execute(tmp_path, "SELECT token FROM controller_lease") == [(2,)]
    second = machines.start("there", 60.0)
    wait_for(lambda: ledger.controllers.host("r") == "there", "the next controller")
    ledger.request_stop("r")
    assert second.wait() == 0, machines.log()
    assert (ledger.run("r").state, ledger.controllers.host("r")) == ("stopped", None)
    assert execute(tmp_path, "SELECT token FROM controller_lease") == [(3,)]


@pytest.mark.chaos
def test_a_stage_outlives_its_suspended_controller_and_is_committed_by_the_next_one(
    machines, tmp_path, database
):
    with closing(open_ledger(tmp_path, database)) as ledger:
        of = msgspec.structs.replace(tiny_config("r"), ladder=(Rung(name="tiny", steps=300),))
        ledger.create_run(
            "r", msgspec.to_builtins(of), None, stored(begin_rules(tmp_path, of, None))
        )
        first = machines.start("here", 2.0)
        training = tmp_path / "r" / "cycle_0" / "train"
        wait_for(lambda: is_locked(training), "the training")
        first.send_signal(signal.SIGSTOP)
        wait_for(lambda: ledger.controllers.host("r") is None, "the end of its lease")
        second = machines.start("there", 60.0)
        wait_for(lambda: ledger.controllers.host("r") == "there", "the second controller")
        assert is_locked(training), "it attaches to the process that the first one started"
        first.send_signal(signal.SIGCONT)
        assert (first.wait(), second.wait()) == (1, 0), machines.log()
        assert ledger.run("r").state == "finished"
        made = [(one.stage, one.attempt, one.state) for one in ledger.attempts("r")]
        assert made == [(one, 1, "committed") for one in ("collect", "train", "evaluate")]
        assert_journal_equals_table(ledger, "r", tmp_path / "r")


def test_a_controller_survives_restarts_and_a_crash_of_its_server(
    ledger, machines, postgres_server, tmp_path
):
    child = machines.start("here", 60.0)
    wait_for(lambda: ledger.controllers.host("r") == "here", "the controller")
    for end in (postgres_server.stop, postgres_server.kill):
        end()
        postgres_server.start()
        ledger.add_event("r", "note", {})
        wait_for(lambda: _last_written(tmp_path) == ledger.feed.newest(), "the event in its file")
    ledger.request_stop("r")
    assert child.wait() == 0, machines.log()
    assert ledger.run("r").state == "stopped"
    kinds = [one.kind for one in ledger.events("r")]
    assert kinds.count("run_stopped") == 1


def _last_written(workdir) -> int:
    lines = (workdir / "r" / "events.jsonl").read_bytes().splitlines()
    return msgspec.json.decode(lines[-1])["id"] if lines else 0


class LostAnswer:
    """A server that goes away once, after the commit of this number and before it says so."""

    def __init__(self, number: int) -> None:
        self.commits, self._number = 0, number

    def install(self, ledger) -> None:
        dialect = ledger._engine.dialect
        commit = dialect.do_commit

        def commit_and_vanish(connection) -> None:
            commit(connection)
            self.commits += 1
            if self.commits == self._number:
                connection.dbapi_connection.close()
                raise OperationalError("server closed the connection unexpectedly")

        dialect.do_commit = commit_and_vanish


def test_what_may_have_been_committed_is_not_written_again(tmp_path, postgres_server, monkeypatch):
    monkeypatch.setattr(controller, "write_summary", lambda *_: None)
    monkeypatch.setattr(controller, "_POLL_S", 0.0)

    def run_until_it_asks(number: int) -> tuple[int, list[str]]:
        """Commits, and kinds of events."""
        workdir, url, lost = tmp_path / str(number), postgres_server.create(), LostAnswer(number)
        open_ledger(workdir, url).close()
        of = config(approvals=ApprovalPlan(promote="human"), budgets=Budgets(cycles=2))
        made = Waiting(workdir, of)
        one = Controller(workdir, "r")
        lost.install(one._ledger)
        with closing(one._ledger), closing(made.ledger):
            assert one.run() == 0
            assert made.state == "waiting"
            kinds = [event.kind for event in made.ledger.events("r")]
            assert made.kinds() == kinds
        postgres_server.drop(url)
        return lost.commits, kinds

    commits, expected = run_until_it_asks(0)
    assert expected[-2:] == ["approval_needed", "run_waiting"]
    # The first commit takes the lease: a controller that does not get its answer exits.
    for number in range(2, commits):
        assert run_until_it_asks(number) == (ANY, expected), number
