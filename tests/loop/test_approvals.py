"""A run that asks a person: it waits without a process, and goes on with the answer."""

import json
import time

import msgspec
import pytest

from lefleet.constitution import packaged
from lefleet.errors import BadInput, Denied
from lefleet.ledger import ApprovalRow
from lefleet.loop import controller as controller_module
from lefleet.loop import runs as runs_module
from lefleet.loop.answers import open_question
from lefleet.loop.approvals import (
    must_ask,
    question_about,
    timed_out,
    waiting_words,
    with_answer,
)
from lefleet.loop.limits import reached, usage
from lefleet.loop.runs import change_config, find, resume, stop
from lefleet.loop.state import read_state, stored_config
from lefleet.loop.status import run_status
from lefleet.records import ApprovalAnswer, ApprovalPlan, Budgets
from tests.ledger.ledgers import execute
from tests.loop.states import config, decision, gate
from tests.waiting import Waiting

HUMAN = ApprovalPlan(promote="human")
YES = ApprovalAnswer(approved=True, who="anna", at=100.0)
NO = ApprovalAnswer(approved=False, who="anna", at=100.0, why="it shakes")


def promoted(**changes):
    values = {"why": "better than the baseline", "gate": gate("better")}
    return decision(1, "promote", "c1", **values | changes)


@pytest.mark.parametrize(
    ("made", "plan", "moves_hardware", "is_asked"),
    [
        (promoted(), ApprovalPlan(), False, False),
        (promoted(), ApprovalPlan(), True, True),
        (promoted(), HUMAN, False, True),
        (promoted(), ApprovalPlan(promote="auto"), True, False),
        (decision(1, "escalate", "c0"), ApprovalPlan(), True, False),
        (decision(1, "escalate", "c0"), ApprovalPlan(escalate="human"), False, True),
        (decision(0, "baseline", "c0"), HUMAN, True, False),
        (decision(1, "rollback", "c0"), HUMAN, True, False),
        (decision(1, "iterate", "c0"), HUMAN, True, False),
    ],
)
def test_who_is_asked_about_a_decision(made, plan, moves_hardware, is_asked):
    assert must_ask(made, plan, moves_hardware=moves_hardware) == is_asked
    question = question_about(made)
    assert (question.kind if question else "") == (
        made.decision if made.decision in ("promote", "escalate") else ""
    )


def test_what_is_approved_is_done_and_says_who_approved_it():
    after = with_answer(promoted(), YES, "c0")
    assert (after.decision, after.blessed, after.answer) == ("promote", "c1", YES)
    assert after.why == "better than the baseline; approved by anna"


def test_a_rejected_promotion_keeps_the_baseline_the_evidence_and_the_reason():
    after = with_answer(promoted(), NO, "c0")
    assert (after.decision, after.blessed, after.answer) == ("iterate", "c0", NO)
    assert after.gate == promoted().gate
    assert after.why == (
        "promotion rejected by anna: it shakes; the evidence: better than the baseline"
    )


def test_a_rejected_escalation_stays_on_its_rung():
    after = with_answer(decision(3, "escalate", "c0"), NO, "c0")
    assert (after.decision, after.blessed) == ("iterate", "c0")
    assert after.why.startswith("escalation rejected by anna")


def asked(**changes) -> ApprovalRow:
    values = {"id": 1, "run": "r", "cycle": 1, "kind": "promote", "subject": "s", "text": "bless"}
    values |= {"evidence": {}, "asked_at": 0.0, "expires_at": 7200.0, "on_timeout": "reject"}
    return ApprovalRow(**values | {"answer": None} | changes)


def test_a_time_out_answers_as_the_plan_says_and_not_before():
    assert timed_out(asked(), 7199.0) is None
    assert timed_out(asked(expires_at=None), 1e12) is None
    late = timed_out(asked(), 7200.0)
    assert (late.approved, late.who, late.why) == (False, "timeout", "nobody answered within 2 h")
    assert timed_out(asked(on_timeout="approve"), 7200.0).approved


def test_the_words_for_waiting_name_the_time_out():
    assert waiting_words(asked(expires_at=None)) == "a person to bless"
    assert waiting_words(asked()).endswith(": reject)")


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Runs whose next controllers work in this process; nothing is drawn."""
    made = []
    monkeypatch.setattr(controller_module, "write_summary", lambda *_: None)
    monkeypatch.setattr(runs_module, "start_controller", lambda workdir, run: None)

    def begin_run(approvals=HUMAN, **changes) -> Waiting:
        of = config(approvals=approvals, budgets=Budgets(cycles=2), **changes)
        made.append(Waiting(tmp_path / "runs", of))
        return made[-1]

    yield begin_run
    for run in made:
        run.ledger.close()


def test_a_run_asks_waits_without_a_process_and_goes_on_when_it_is_approved(begin):
    run = begin()
    assert run.control() == 0
    assert run.state == "waiting"
    assert run.kinds()[-2:] == ["approval_needed", "run_waiting"]
    assert len(run.ledger.decisions("r")) == 1
    assert run.answer(YES) == "resumed"
    assert run.control() == 0
    assert (run.state, run.decided().decision, run.decided().blessed) == (
        "finished",
        "promote",
        "c1",
    )
    assert run.decided().answer == YES
    assert "approved" in run.kinds()


def test_a_rejected_promotion_is_an_iterate_with_the_baseline(begin):
    run = begin()
    run.control()
    run.answer(NO)
    run.control()
    assert (run.state, run.decided().decision, run.decided().blessed) == (
        "finished",
        "iterate",
        "c0",
    )
    assert "it shakes" in run.decided().why
    page = (run.workdir / "knowledge" / "experiments" / "r.md").read_text()
    assert "it shakes" in page
    assert "anna" in page


def test_a_controller_that_is_started_again_asks_no_second_time(begin):
    run = begin()
    run.control()
    for _ in range(3):
        run.ledger.resume_run("r")
        run.control()
    assert run.state == "waiting"
    assert run.kinds().count("approval_needed") == 1


def test_a_question_is_answered_once(begin):
    run = begin()
    run.control()
    run.answer(YES)
    with pytest.raises(BadInput, match=r"r waits for no answer\. anna approved the last question"):
        run.answer(NO)


def test_of_two_answers_the_first_counts(begin):
    run = begin()
    run.control()
    (question,) = run.ledger.approvals.all("r")
    assert run.ledger.approvals.answer(question, YES)
    assert not run.ledger.approvals.answer(question, NO)
    assert run.ledger.approvals.all("r")[0].answer == YES


def test_an_answer_that_comes_before_the_controller_is_gone_is_not_lost(begin, monkeypatch):
    """The controller was about to let the run wait."""
    run = begin()
    wait = run.ledger.approvals.__class__.wait

    def answered_meanwhile(self, name, reason):
        if question := open_question(run.ledger, "r"):
            run.ledger.approvals.answer(question, YES)
        return wait(self, name, reason)

    monkeypatch.setattr(run.ledger.approvals.__class__, "wait", answered_meanwhile)
    run.control()
    assert (run.state, run.decided().decision) == ("finished", "promote")


def test_a_run_that_waits_can_be_stopped_and_asks_again_when_it_is_resumed(begin):
    run = begin()
    run.control()
    assert stop(run.ledger, run.workdir, find(run.ledger, "r")) == "stopped"
    assert resume(run.ledger, run.workdir, find(run.ledger, "r")) == "resumed"
    run.control()
    assert run.state == "waiting"
    assert resume(run.ledger, run.workdir, find(run.ledger, "r")) == "waiting"


@pytest.mark.parametrize(("on_timeout", "outcome"), [("approve", "promote"), ("reject", "iterate")])
def test_a_time_out_takes_effect_when_the_run_is_looked_at(begin, on_timeout, outcome):
    plan = ApprovalPlan(promote="human", timeout_hours=1.0, on_timeout=on_timeout)
    run = begin(plan)
    run.control()
    assert resume(run.ledger, run.workdir, find(run.ledger, "r")) == "waiting"
    execute(run.workdir, "UPDATE approval SET expires_at = 1.0")
    with pytest.raises(BadInput, match=r"timeout (approved|rejected) the last question"):
        run.answer(YES)
    assert resume(run.ledger, run.workdir, find(run.ledger, "r")) == "resumed"
    run.control()
    assert (run.decided().decision, run.decided().answer.who) == (outcome, "timeout")


def test_waiting_for_a_person_uses_no_budget_of_time(begin):
    run = begin()
    run.control()
    now = time.time()
    execute(run.workdir, f"UPDATE approval SET asked_at = {now - 7200}")
    run.answer(msgspec.structs.replace(YES, at=now))
    row = run.ledger.run("r")
    state = read_state(run.ledger, row)
    hours = Budgets(wall_hours=1.0)
    assert not reached(hours, usage(state, wall_s=7200 + 600))
    assert reached(hours, usage(state, wall_s=7200 + 3700))


def test_waiting_that_has_no_end_yet_uses_no_budget_of_time_either(begin):
    run = begin()
    run.control()
    now = time.time()
    execute(run.workdir, f"UPDATE approval SET asked_at = {now - 36000}")
    execute(run.workdir, f"UPDATE run SET created_at = {now - 36600}")
    state = read_state(run.ledger, run.ledger.run("r"))
    assert usage(state, wall_s=36600).wall_s == pytest.approx(600, abs=5)


def test_time_that_a_status_does_not_count_is_not_subtracted_from_it(begin):
    """The elapsed time of a run that has ended goes to the end of its last stage."""
    run = begin()
    run.control()
    run.answer(YES)
    run.control()
    now = time.time()
    late = {"approved": True, "who": "anna", "at": now + 9000, "why": ""}
    execute(run.workdir, f"UPDATE approval SET answer = '{json.dumps(late)}'")
    execute(run.workdir, f"UPDATE run SET created_at = {now - 3600}")
    used = run_status(run.ledger, run.ledger.run("r"))["budgets"]["wall_hours"]["used"]
    assert used == pytest.approx(1.0, abs=0.05)


def test_a_run_that_asks_nobody_waits_for_nobody(begin):
    run = begin(ApprovalPlan())
    run.control()
    assert (run.state, run.decided().decision) == ("finished", "promote")
    assert run.ledger.approvals.all("r") == []


def test_what_a_person_said_holds_also_where_nobody_would_be_asked_any_more(begin, monkeypatch):
    """The robot counts as simulated by now, so a promotion would be automatic."""
    run = begin()
    run.control()
    run.answer(NO)
    monkeypatch.setattr(controller_module, "must_ask", lambda *_, **__: False)
    run.control()
    assert (run.decided().decision, run.decided().blessed) == ("iterate", "c0")


def test_an_answer_to_another_question_is_refused(begin):
    run = begin()
    run.control()
    (question,) = run.ledger.approvals.all("r")
    with pytest.raises(BadInput, match=rf"question {question.id + 1}.*as question {question.id}"):
        run.answer(YES, question.id + 1)
    assert run.answer(YES, question.id) == "resumed"


@pytest.mark.parametrize("kind", ["constitution", "real_hardware"])
def test_questions_of_safety_are_answered_by_their_number_only(begin, kind):
    run = begin()
    run.ledger.approvals.ask(
        "r", kind, "s", cycle=1, text="x", evidence={}, timeout_s=0, on_timeout="reject"
    )
    (question,) = run.ledger.approvals.all("r")
    with pytest.raises(BadInput, match=f"--question={question.id}"):
        run.answer(YES)
    run.answer(YES, question.id)
    assert run.ledger.approvals.all("r")[0].answer == YES


def test_a_run_that_waits_and_is_stopped_has_files_that_say_so(begin):
    run = begin()
    run.control()
    stop(run.ledger, run.workdir, find(run.ledger, "r"))
    assert run.kinds()[-2:] == ["stop_requested", "run_stopped"]


def test_a_stop_that_comes_as_the_run_begins_to_wait_stops_it(begin):
    run = begin()
    stale = find(run.ledger, "r")
    run.control()
    assert (stale.state, run.state) == ("running", "waiting")
    assert stop(run.ledger, run.workdir, stale) == "stopped"
    assert (run.state, run.kinds()[-1]) == ("stopped", "run_stopped")


def test_a_run_that_was_stopped_meanwhile_ends_its_controller(begin, monkeypatch):
    run = begin()
    wait = run.ledger.approvals.__class__.wait

    def stopped_meanwhile(self, name, reason):
        run.ledger.set_run_state("r", "stopped", "by lefleet stop")
        return wait(self, name, reason)

    monkeypatch.setattr(run.ledger.approvals.__class__, "wait", stopped_meanwhile)
    run.control()
    assert run.state == "stopped"


def test_other_budgets_keep_to_the_constitution(begin, tmp_path):
    fields = msgspec.to_builtins(packaged()) | {"caps": {"cycles": 3}}
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "constitution.yaml").write_text(json.dumps(fields))
    run = begin()
    run.control()
    run.answer(YES)
    run.control()
    row = find(run.ledger, "r")
    with pytest.raises(Denied, match=r"caps\.cycles"):
        change_config(run.ledger, run.workdir, row, ("--budgets.cycles=4",))
    assert run.state == "finished"


def test_a_run_of_a_ledger_without_proposals_goes_on_with_as_many_of_each_task(begin):
    run = begin()
    of = msgspec.to_builtins(config())
    del of["propose"]
    execute(run.workdir, f"UPDATE run SET config = '{json.dumps(of)}'")
    assert stored_config(run.ledger.run("r")).propose.split == "uniform"
