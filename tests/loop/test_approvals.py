"""A run that asks a person: it waits without a process, and goes on with the answer."""

import json
import time
from pathlib import Path

import msgspec
import pytest

from lefleet.constitution import stored
from lefleet.errors import BadInput
from lefleet.ledger import ApprovalRow, open_ledger
from lefleet.loop import controller as controller_module
from lefleet.loop import runs as runs_module
from lefleet.loop.approvals import question_about, timed_out, waiting_words, with_answer
from lefleet.loop.controller import Controller
from lefleet.loop.rules import begin_rules
from lefleet.loop.runs import answer, find, open_question, resume, stop
from lefleet.loop.state import read_state
from lefleet.records import ApprovalAnswer, ApprovalPlan, Budgets, ExpertDemos, RunConfig
from tests.ledger.ledgers import execute
from tests.loop.states import config, decision, gate, proposal, record, result
from tests.samples import comparison_record, evaluation_record

REQUEST = ExpertDemos(tasks=("push",))
HUMAN = ApprovalPlan(promote="human")
YES = ApprovalAnswer(approved=True, who="anna", at=100.0)
NO = ApprovalAnswer(approved=False, who="anna", at=100.0, why="it shakes")


def promoted(**changes):
    values = {"why": "better than the baseline", "gate": gate("better")}
    return decision(1, "promote", "c1", **values | changes)


@pytest.mark.parametrize(
    ("made", "plan", "moves_hardware", "kind"),
    [
        (promoted(), ApprovalPlan(), False, None),
        (promoted(), ApprovalPlan(), True, "promote"),
        (promoted(), HUMAN, False, "promote"),
        (promoted(), ApprovalPlan(promote="auto"), True, None),
        (decision(1, "escalate", "c0"), ApprovalPlan(), True, None),
        (decision(1, "escalate", "c0"), ApprovalPlan(escalate="human"), False, "escalate"),
        (decision(0, "baseline", "c0"), HUMAN, True, None),
        (decision(1, "rollback", "c0"), HUMAN, True, None),
        (decision(1, "iterate", "c0"), HUMAN, True, None),
    ],
)
def test_who_is_asked_about_a_decision(made, plan, moves_hardware, kind):
    question = question_about(made, plan, moves_hardware=moves_hardware)
    assert (question.kind if question else None) == kind


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


class Waiting:
    """A run whose second candidate was shown to be better, without a controller."""

    def __init__(self, workdir: Path, of: RunConfig) -> None:
        self.workdir, self.folder = workdir, workdir / "r"
        self.ledger = open_ledger(workdir)
        rules = stored(begin_rules(workdir, of, None))
        self.ledger.create_run("r", msgspec.to_builtins(of), None, rules)
        for cycle in (0, 1):
            self.ledger.record_proposal("r", proposal(cycle, of))
            self.commit(cycle, "collect", record(cycle, "collect"))
            self.commit(cycle, "train", record(cycle, "train"))
            found = result(2 + cycle, cycle)
            found = msgspec.structs.replace(found, per_task={"push": found.overall})
            self.commit(cycle, "evaluate", evaluation_record(result=found))
            if cycle == 0:
                self.ledger.record_decision("r", decision(0, "baseline", "c0"))
        better = gate("better", pairs=20, wins=10)
        self.commit(1, "gate", comparison_record(candidate="c1", gate=better))

    def commit(self, cycle, stage, made) -> None:
        self.ledger.commit_stage(self.ledger.start_attempt("r", cycle, stage, REQUEST), made)

    def control(self) -> int:
        return Controller(self.workdir, "r").run()

    @property
    def state(self) -> str:
        return self.ledger.run("r").state

    def answer(self, said: ApprovalAnswer) -> str:
        return answer(self.ledger, self.workdir, find(self.ledger, "r"), said)[1]

    def decided(self):
        return self.ledger.decisions("r")[-1]

    def kinds(self) -> list[str]:
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [json.loads(line)["kind"] for line in lines]


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
    execute(run.workdir / "ledger.db", "UPDATE approval SET expires_at = 1.0")
    with pytest.raises(BadInput, match=r"timeout (approved|rejected) the last question"):
        run.answer(YES)
    assert resume(run.ledger, run.workdir, find(run.ledger, "r")) == "resumed"
    run.control()
    assert (run.decided().decision, run.decided().answer.who) == (outcome, "timeout")


def test_waiting_for_a_person_uses_no_budget_of_time(begin):
    run = begin()
    run.control()
    now = time.time()
    execute(run.workdir / "ledger.db", f"UPDATE approval SET asked_at = {now - 7200}")
    run.answer(msgspec.structs.replace(YES, at=now))
    state = read_state(run.ledger, run.ledger.run("r"))
    assert round(state.waited_s()) == 7200


def test_a_run_that_asks_nobody_waits_for_nobody(begin):
    run = begin(ApprovalPlan())
    run.control()
    assert (run.state, run.decided().decision) == ("finished", "promote")
    assert run.ledger.approvals.all("r") == []
