"""What a question to a person rests on."""

from contextlib import closing

import pytest

from lefleet.ledger import open_ledger
from lefleet.queries.approvals import open_approvals, plateau
from lefleet.queries.runs import RunReader
from lefleet.records import ApprovalPlan, Budgets, DecidePlan
from tests.loop.states import config
from tests.waiting import Stuck, Waiting


@pytest.fixture
def asked(tmp_path):
    """A reader, and the question of the run that each class makes."""
    opened = []

    def asks(of: type[Waiting], **changes):
        waiting = of(tmp_path, config(budgets=Budgets(cycles=5), **changes))
        with closing(waiting.ledger):
            waiting.control()
        opened.append(open_ledger(tmp_path))
        (question,) = open_approvals(opened[-1])
        return RunReader(lambda: opened[-1], tmp_path), question

    yield asks
    for ledger in opened:
        ledger.close()


def test_an_escalation_rests_on_the_gates_in_a_row_and_names_both_rungs(asked):
    plan = DecidePlan(escalate_after=2)
    reader, question = asked(Stuck, approvals=ApprovalPlan(escalate="human"), decide=plan)
    found = plateau(reader, question)
    assert [one.cycle for one in found.gates] == [2, 1]
    assert all(one.text.startswith("No clear answer: of 20 pairs") for one in found.gates)
    assert [one.index for one in found.cycles] == [0, 1, 2]
    assert found.rung == "small: act, 1,000 steps"
    assert found.next_rung == "big: act, 1,000 steps"


def test_a_promotion_rests_on_no_plateau(asked):
    assert plateau(*asked(Waiting, approvals=ApprovalPlan(promote="human"))) is None
