"""Runs, decisions and events."""

import pytest
from sqlalchemy.exc import IntegrityError

from lefleet.ledger.config_change import ConfigChange
from tests.loop.states import decision, gate


def kinds(ledger, run: str = "r") -> list[str]:
    return [event.kind for event in ledger.events(run)]


def test_a_new_run_is_running(ledger):
    row = ledger.run("r")
    assert (row.state, row.reason, row.stop_requested) == ("running", "", False)
    assert row.config == {"name": "r"}
    assert row.created_at == row.resumed_at


def test_a_run_is_created_once(ledger):
    assert not ledger.create_run("r", {"name": "other"})
    assert ledger.run("r").config == {"name": "r"}
    assert kinds(ledger) == ["run_created"]


def test_runs_come_oldest_first(ledger):
    for name in ("z", "a", "m"):
        assert ledger.create_run(name, {})
    assert [row.id for row in ledger.runs()] == ["r", "z", "a", "m"]


def test_an_unknown_run_is_none(ledger):
    assert ledger.run("unknown") is None


def test_a_state_has_a_reason_and_an_event(ledger):
    ledger.set_run_state("r", "failed", "no disk")
    assert (ledger.run("r").state, ledger.run("r").reason) == ("failed", "no disk")
    assert ledger.events("r")[-1].kind == "run_failed"
    assert ledger.events("r")[-1].data == {"reason": "no disk"}


def test_the_same_state_again_changes_nothing(ledger):
    ledger.set_run_state("r", "finished", "done")
    ledger.set_run_state("r", "finished", "done again")
    assert ledger.run("r").reason == "done"
    assert kinds(ledger).count("run_finished") == 1


def test_events_of_a_run_tell_who_did_it(ledger):
    ledger.create_run("s", {}, {"run": "r", "cycle": 2}, by="anna")
    ledger.request_stop("s", by="ben (token)")
    ledger.resume_run("s", ConfigChange({"cycles": 3}, {}, {}, None), by="cleo")
    told = {event.kind: event.data for event in ledger.events("s")}
    assert told["run_created"] == {"origin": "r:2", "by": "anna"}
    assert told["stop_requested"] == {"by": "ben (token)"}
    assert told["run_resumed"] == {"by": "cleo"}
    assert "by" not in ledger.events("r")[0].data


def test_a_request_to_stop_stays_until_the_run_is_resumed(ledger):
    ledger.request_stop("r")
    assert ledger.run("r").stop_requested
    ledger.set_run_state("r", "stopped", "by lefleet stop")
    ledger.resume_run("r")
    row = ledger.run("r")
    assert (row.state, row.reason, row.stop_requested) == ("running", "", False)
    assert row.resumed_at > row.created_at
    assert kinds(ledger) == ["run_created", "stop_requested", "run_stopped", "run_resumed"]


def test_decisions_come_by_cycle(ledger):
    second = decision(1, "promote", "c1", gate=gate("better"))
    first = decision(0, "baseline", "c0", diagnosis=("data",))
    ledger.record_decision("r", second)
    ledger.record_decision("r", first)
    assert ledger.decisions("r") == [first, second]


def test_a_cycle_is_decided_once(ledger):
    ledger.record_decision("r", decision(0, "baseline", "c0"))
    with pytest.raises(IntegrityError):
        ledger.record_decision("r", decision(0, "iterate"))
    assert [one.decision for one in ledger.decisions("r")] == ["baseline"]
    assert kinds(ledger).count("decision") == 1


def test_a_decision_is_an_event_with_its_reason(ledger):
    ledger.record_decision("r", decision(2, "rollback", "c0", why="worse"))
    assert ledger.events("r")[-1].data == {"cycle": 2, "decision": "rollback", "why": "worse"}


def test_events_come_in_order_after_an_id(ledger):
    for number in range(3):
        ledger.add_event("r", "note", {"number": number})
    first, *rest = ledger.events("r")
    assert [event.data.get("number") for event in rest] == [0, 1, 2]
    assert ledger.events("r", after=first.id) == rest
    assert ledger.events("r", after=rest[-1].id) == []
    assert ledger.events("r", after=first.id, limit=1) == rest[:1]


def test_events_of_another_run_are_not_mine(ledger):
    ledger.create_run("other", {})
    ledger.add_event("other", "note", {})
    assert kinds(ledger) == ["run_created"]


def test_an_event_of_an_unknown_run_is_refused(ledger):
    with pytest.raises(IntegrityError):
        ledger.add_event("unknown", "note", {})
