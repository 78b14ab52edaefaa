"""Events of a run name the person who did it."""

from lefleet.actions.people import user_name
from lefleet.ledger import open_ledger
from lefleet.queries.events import event_text, events
from tests.cli.conftest import lefleet, two_runs  # noqa: F401 - fixtures


def test_who_began_resumed_and_stopped_a_run(tmp_path):
    ledger = open_ledger(tmp_path)
    ledger.create_run("r", {}, {"run": "demo", "cycle": 2}, by="anna")
    ledger.request_stop("r", by="ben (token)")
    ledger.resume_run("r")
    ledger.create_run("s", {}, by="cleo")
    ledger.create_run("t", {})
    assert [event_text("r", event) for event in ledger.events("r")] == [
        "r: starts from demo:2, begun by anna",
        "r: stop requested by ben (token)",
        "r: run resumed",
    ]
    assert [event_text("s", event) for event in ledger.events("s")] == ["s: begun by cleo"]
    assert [event_text("t", event) for event in ledger.events("t")] == [""]
    assert [line.text for line in events(ledger, "t").items] == ["run created"]
    ledger.close()


def test_a_command_is_done_by_the_system_user(lefleet, two_runs):  # noqa: F811
    two_runs.resume_run("b")
    assert lefleet("stop", "b")[0] == 0
    told = {event.kind: event.data for event in two_runs.events("b")}
    assert told["stop_requested"] == {"by": user_name()}
