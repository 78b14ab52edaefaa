"""Answers of people: repeated ones change nothing, different ones are a conflict."""

import time
from contextlib import closing

import msgspec
import pytest

from lefleet.actions.answers import answer_question, make_answer
from lefleet.errors import BadInput, Conflict
from lefleet.ledger import open_ledger
from lefleet.loop import runs as loop_runs
from tests.loop.states import config


@pytest.fixture
def question(tmp_path, monkeypatch):
    """Of a run that waits; its controller is not started."""
    monkeypatch.setattr(loop_runs, "start_controller", lambda *_: None)
    with closing(open_ledger(tmp_path)) as ledger:
        ledger.create_run("a", msgspec.to_builtins(config(name="a")))
        asked = ledger.approvals.ask(
            "a", "promote", "c", cycle=1, text="promote it", evidence={}, timeout_s=0.0,
            on_timeout="reject",
        )  # fmt: skip
        ledger.approvals.wait("a", "a person")
    return asked.id


def test_a_yes_lets_the_run_go_on_and_may_be_repeated(question, tmp_path):
    said = make_answer(approved=True, who="anna", why="")
    first = answer_question(tmp_path, question, said)
    assert first.happened == "resumed"
    again = answer_question(tmp_path, question, make_answer(approved=True, who="anna", why="again"))
    assert again.asked.answer == first.asked.answer
    with closing(open_ledger(tmp_path)) as ledger:
        kinds = [one.kind for one in ledger.events("a")]
    assert kinds.count("approved") == 1


@pytest.mark.parametrize(("approved", "who"), [(False, "anna"), (True, "bert")])
def test_another_answer_is_a_conflict_that_says_who_was_first(question, tmp_path, approved, who):
    answer_question(tmp_path, question, make_answer(approved=True, who="anna", why=""))
    with pytest.raises(Conflict, match="anna approved question"):
        answer_question(tmp_path, question, make_answer(approved=approved, who=who, why="no"))


def test_a_conflicting_answer_does_not_resume_the_run(question, tmp_path, monkeypatch):
    """Whoever may only answer must not start what was stopped."""
    answer_question(tmp_path, question, make_answer(approved=True, who="anna", why=""))
    resumed = []
    monkeypatch.setattr(loop_runs, "resume", lambda *_, **__: resumed.append(1))
    with pytest.raises(Conflict):
        answer_question(tmp_path, question, make_answer(approved=False, who="bert", why="no"))
    assert resumed == []


def test_a_no_needs_a_reason_and_is_kept_on_one_line():
    for why in ("", "  \n "):
        with pytest.raises(BadInput, match="why"):
            make_answer(approved=False, who="anna", why=why)
    said = make_answer(approved=False, who="anna", why="too\nfast\x1b[31m")
    assert "\n" not in said.why
    assert "\x1b" not in said.why
    assert abs(said.at - time.time()) < 60
    with pytest.raises(BadInput, match="2001 characters"):
        make_answer(approved=True, who="anna", why="x" * 2001)


def test_an_unknown_question_is_refused(question, tmp_path):
    with pytest.raises(BadInput, match="no question 99"):
        answer_question(tmp_path, 99, make_answer(approved=True, who="anna", why=""))
