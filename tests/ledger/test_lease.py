"""One controller at a time, and what an outdated one may still write: nothing."""

import signal
import socket
import subprocess
import sys

import pytest

from lefleet.errors import LeaseLost
from lefleet.ledger import lease, open_ledger
from lefleet.ledger.config_change import ConfigChange
from lefleet.process.liveness import has_ended, this_process
from lefleet.records import ApprovalAnswer
from tests.ledger.ledgers import REQUEST, everything, execute
from tests.loop.states import config, decision, proposal
from tests.loop.test_end_to_end import wait_for
from tests.samples import dataset_record

ELSEWHERE = "0000-boot:pid:[1]:7:7"
"""A process of another machine."""
on_server = pytest.mark.parametrize("workdir", ["postgres"], indirect=True)


@pytest.fixture
def other(workdir):
    """The same ledger, opened by somebody else."""
    opened = open_ledger(workdir)
    yield opened
    opened.close()


def test_a_run_has_one_controller_and_it_is_known_where(ledger, other):
    assert ledger.controllers.host("r") is None
    with ledger.controllers.hold("r") as is_mine:
        assert is_mine
        assert other.controllers.host("r") == ledger.controllers.host("r") == socket.gethostname()
        with other.controllers.hold("r") as is_theirs:
            assert not is_theirs
        ledger.controllers.renew()
        ledger.add_event("r", "note", {})
        other.request_stop("r")
    assert other.controllers.host("r") is None
    with other.controllers.hold("r") as is_theirs:
        assert is_theirs
        ledger.add_event("r", "note", {})


def test_a_controller_that_was_killed_is_gone_at_once(ledger, workdir):
    code = (
        "import sys; from pathlib import Path; from lefleet.ledger import open_ledger\n"
        "with open_ledger(Path(sys.argv[1])).controllers.hold('r') as held:\n"
        "    print(held, flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code, str(workdir)]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"True\n"
    assert ledger.controllers.host("r") is not None
    child.send_signal(signal.SIGKILL)
    # Not waited for: what is left of a dead process does not count.
    wait_for(lambda: ledger.controllers.host("r") is None, "the end of a killed process")
    with ledger.controllers.hold("r") as is_mine:
        assert is_mine
    child.communicate()


@on_server
def test_a_controller_of_another_machine_counts_until_its_lease_has_run_out(ledger, workdir):
    with ledger.controllers.hold("r"):
        execute(workdir, f"UPDATE controller_lease SET process = '{ELSEWHERE}', host = 'far'")
        assert ledger.controllers.host("r") == "far"
        execute(workdir, "UPDATE controller_lease SET expires_at = expires_at - 61")
        assert ledger.controllers.host("r") is None


@on_server
def test_a_lease_that_ran_out_is_kept_where_nobody_has_asked_for_it(ledger, workdir):
    with ledger.controllers.hold("r"):
        execute(workdir, "UPDATE controller_lease SET expires_at = expires_at - 61")
        assert ledger.controllers.host("r") is None
        ledger.add_event("r", "note", {})
        assert ledger.controllers.host("r") is not None


@on_server
def test_the_token_grows_with_each_holder(ledger, other, workdir):
    tokens = []
    for holder in (ledger, other, ledger):
        with holder.controllers.hold("r"):
            tokens += execute(workdir, "SELECT token FROM controller_lease")
    assert tokens == [(1,), (2,), (3,)]


@pytest.fixture
def outdated(ledger, other, workdir, monkeypatch):
    """A controller that slept for longer than its lease, while another one took over."""
    attempt = ledger.start_attempt("r", 0, "collect", REQUEST)
    question = ledger.approvals.ask(
        "r", "promote", "s", cycle=0, text="", evidence={}, timeout_s=0, on_timeout="reject"
    )
    event = ledger.events("r")[-1].id
    ledger.notifications.add("r", event, "decision", "text")
    with ledger.controllers.hold("r"):
        execute(workdir, "UPDATE controller_lease SET expires_at = expires_at - 61")
        with other.controllers.hold("r") as is_theirs:
            assert is_theirs
            yield ledger, attempt, question


ANSWER = ApprovalAnswer(approved=True, who="anna", at=1.0)
WRITES = {
    "create_run": lambda ledger, *_: ledger.create_run("s", {}),
    "set_run_state": lambda ledger, *_: ledger.set_run_state("r", "failed"),
    "request_stop": lambda ledger, *_: ledger.request_stop("r"),
    "resume_run": lambda ledger, *_: ledger.resume_run("r", ConfigChange({}, {}, {}, None)),
    "set_constitution": lambda ledger, *_: ledger.set_constitution("r", {}, ""),
    "start_attempt": lambda ledger, *_: ledger.start_attempt("r", 1, "train", REQUEST),
    "end_attempt": lambda ledger, attempt, _: ledger.end_attempt(attempt, "failed", ""),
    "commit_stage": lambda ledger, attempt, _: ledger.commit_stage(attempt, dataset_record()),
    "record_proposal": lambda ledger, *_: ledger.record_proposal("r", proposal(0, config())),
    "record_decision": lambda ledger, *_: ledger.record_decision("r", decision(0, "baseline")),
    "add_event": lambda ledger, *_: ledger.add_event("r", "note", {}),
    "ask": lambda ledger, *_: ledger.approvals.ask(
        "r", "promote", "t", cycle=0, text="", evidence={}, timeout_s=0, on_timeout="reject"
    ),
    "answer": lambda ledger, _, asked: ledger.approvals.answer(asked, ANSWER),
    "retire": lambda ledger, _, asked: ledger.approvals.retire(asked),
    "wait": lambda ledger, *_: ledger.approvals.wait("r", ""),
    "label": lambda ledger, *_: ledger.labels.add("/d", 0, True, source="page", who="anna"),
    "section": lambda ledger, *_: ledger.sections.write("p", {"a": "b"}),
    "edit": lambda ledger, *_: ledger.sections.add_edit("p", "anna", "a", "b"),
    "notify": lambda ledger, *_: ledger.notifications.update(1, "sent", 1),
    "renew": lambda ledger, *_: ledger.controllers.renew(),
}


@on_server
def test_an_outdated_controller_writes_nothing(outdated, workdir, monkeypatch):
    ledger, attempt, question = outdated
    monkeypatch.setattr(lease, "RENEWALS", 1e9)  # at every call
    before = everything(workdir)
    for name, write in WRITES.items():
        with pytest.raises(LeaseLost, match=r"has taken over r.*writes nothing"):
            write(ledger, attempt, question)
        assert everything(workdir) == before, name
    assert ledger.run("r").state == "running", "it may still read"


def test_a_process_is_known_to_have_ended_only_on_its_own_machine():
    mine = this_process()
    assert not has_ended(mine)
    machine, pid, start = mine.rsplit(":", 2)
    assert has_ended(f"{machine}:{pid}:{int(start) + 1}"), "another process has its id now"
    assert has_ended(f"{machine}:{2**22 + 1}:{start}")
    assert not has_ended(f"other-{machine}:{2**22 + 1}:{start}")
