"""Which events people are told of, in what words, and with which commands to answer."""

from pathlib import Path

import pytest

from lefleet.ledger import ApprovalRow, EventRow, RunRow
from lefleet.notify.messages import message, notice, one_line
from tests.loop.states import decision

ROW = RunRow("demo", "running", "", {}, False, 100.0, 100.0, 0, None, None)
HOME = str(Path.home())


def event(kind: str, **data) -> EventRow:
    return EventRow(7, 123.4567, kind, data)


def told(found: EventRow, workdir: str = "/data/runs", decisions=(), approvals=()):
    return message(ROW, found, Path(workdir), decisions, approvals)


APPROVAL = event(
    "approval_needed",
    cycle=1,
    kind_of_approval="promote",
    text="promote the candidate of cycle 1 (abc): better (10 won, 0 lost)",
    approval=3,
)
QUESTION = ApprovalRow(
    id=3,
    run="demo",
    cycle=1,
    kind="promote",
    subject="cycle 1: abc",
    text="promote the candidate of cycle 1 (abc): better (10 won, 0 lost)",
    evidence={"decision": {"why": "better (10 won, 0 lost)"}},
    asked_at=1.0,
    expires_at=None,
    on_timeout="reject",
    answer=None,
)


@pytest.mark.parametrize(
    ("found", "kind", "text"),
    [
        (
            APPROVAL,
            "approval",
            "demo waits for a person to promote the candidate of cycle 1 (abc): better (10 won, 0 "
            "lost)",
        ),
        (
            event("decision", cycle=2, decision="promote", why="better"),
            "promotion",
            "demo, cycle 2: promote: better",
        ),
        (
            event("decision", cycle=0, decision="baseline", why="first above 0%"),
            "promotion",
            "demo, cycle 0: baseline: first above 0%",
        ),
        (event("run_failed", reason="no data"), "failure", "demo failed: no data"),
        (
            event("run_denied", reason="caps.steps: 9 > 5"),
            "failure",
            "demo was stopped by its constitution: caps.steps: 9 > 5",
        ),
        (
            event("stage_skipped", cycle=1, stage="improve", error="no successes"),
            "failure",
            "demo goes on without improve of cycle 1: no successes",
        ),
        (event("run_finished", reason="all done"), "end", "demo is finished: all done"),
        (
            event("run_stopped", reason="by lefleet stop"),
            "end",
            "demo was stopped: by lefleet stop",
        ),
    ],
)
def test_an_event_that_matters_becomes_a_line_of_its_kind(found, kind, text):
    assert notice("demo", found) == (kind, text)


@pytest.mark.parametrize(
    "found",
    [
        event("decision", cycle=2, decision="iterate", why="no difference shown"),
        event("decision", cycle=2, decision="escalate", why="no difference shown"),
        event("stage_failed", cycle=0, stage="train", error="again"),
        event("notify_failed", notification=1, error="no"),
        event("run_waiting", reason="a person"),
        event("run_resumed"),
    ],
)
def test_of_other_events_nobody_is_told(found):
    assert notice("demo", found) is None


def test_a_question_comes_with_the_commands_that_answer_it_and_its_evidence():
    found = told(APPROVAL, approvals=[QUESTION])
    assert found.commands == (
        "lefleet approve demo --question=3 --workdir /data/runs",
        "lefleet reject demo --question=3 --why '…' --workdir /data/runs",
    )
    assert found.evidence == "better (10 won, 0 lost)"
    assert (found.run, found.kind, found.cycle, found.at) == ("demo", "approval", 1, 123.457)


def test_the_end_of_a_run_comes_with_its_last_decision():
    decisions = [decision(0, "baseline", why="first"), decision(1, "promote", why="better")]
    found = told(event("run_finished", reason="all done"), decisions=decisions)
    assert found.evidence == "cycle 1: promote: better"
    assert found.commands == ("lefleet status demo --workdir /data/runs",)
    assert found.cycle is None


def test_a_failed_run_comes_with_the_command_that_resumes_it():
    found = told(event("run_failed", reason="no"))
    assert found.commands == ("lefleet resume demo --workdir /data/runs",)


@pytest.mark.parametrize(
    ("workdir", "shown"),
    [
        (f"{HOME}/a b/runs", "~/'a b/runs'"),
        (f"{HOME}/runs", "~/runs"),
        ("/data/a b", "'/data/a b'"),
    ],
)
def test_a_work_folder_in_a_command_is_one_that_a_shell_understands(workdir, shown):
    found = told(event("run_finished", reason="all done"), workdir)
    assert found.commands == (f"lefleet status demo --workdir {shown}",)


def test_an_id_stays_and_no_other_event_run_or_ledger_has_it():
    one = event("run_finished", reason="all done")
    ids = {
        told(one).id,
        told(one._replace(id=8)).id,
        message(ROW._replace(id="other"), one, Path("/"), (), ()).id,
        message(ROW._replace(created_at=101.0), one, Path("/"), (), ()).id,
    }
    assert len(ids) == 4
    assert told(one).id == told(one._replace(data={"reason": "other words"})).id


def test_a_text_is_one_line_that_controls_no_terminal_and_shows_no_home_folder():
    text = f"failed:\n  \x1b[31mno {HOME}/runs/x and /mnt{HOME}/y \t end"
    assert one_line(text) == f"failed: [31mno ~/runs/x and /mnt{HOME}/y end"


def test_a_long_text_is_cut():
    assert one_line("a" * 5000) == "a" * 599 + "…"
