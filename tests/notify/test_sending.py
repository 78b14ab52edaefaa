"""Real messages of a run over real channels: sent once each, in order, without delaying the run."""

import os
import signal
import subprocess
import sys

import pytest

from lefleet.constitution import find, installed, rules_for
from lefleet.notify.sender import LOCK, LOG, MAX_TRIES, Sender, backoff_s, channels, send_pending
from lefleet.process import is_held
from lefleet.process.errand import started
from lefleet.records import NotifyPlan, RunConfig, Rung
from tests.notify.conftest import wait_for

END = {"reason": "all 3 cycles are done"}


def test_a_webhook_gets_the_message_as_json(told, receiver):
    run = told(webhook=f"{receiver.url}/hook?a=1")
    run.ledger.set_run_state("r", "finished", "all 3 cycles are done")
    run.notify()
    run.settled()
    (body,), (headers,) = receiver.bodies, receiver.headers
    assert body["text"] == "r is finished: all 3 cycles are done"
    assert set(body) == {"id", "run", "kind", "text", "cycle", "at", "commands", "evidence"}
    assert receiver.paths == ["/hook?a=1"]
    assert headers["Content-Type"] == "application/json"
    assert [(row.state, row.tries, row.error) for row in run.rows] == [("sent", 1, "")]


def test_a_command_gets_the_message_on_its_stdin(told, script, tmp_path):
    code = "open('told', 'w').write(json.load(sys.stdin)['text'] + sys.argv[1]); print('done')"
    run = told(command=(script(code), "!"))
    run.event("run_failed", reason="no data")
    run.notify()
    run.settled()
    assert run.states == ["sent"]
    assert (run.folder / "told").read_text() == "r failed: no data!"
    assert "command, try 1: sent\n    done\n" in (run.folder / LOG).read_text()


def test_several_messages_arrive_once_each_in_their_order(told, receiver):
    run = told(webhook=receiver.url)
    receiver.statuses = [503]
    for cycle in range(3):
        run.event("decision", cycle=cycle, decision="promote", why=f"why {cycle}")
        run.notify()
    run.event("run_finished", **END)
    run.notify()
    run.notify()
    run.settled()
    texts = [body["text"].partition(": ")[0] for body in receiver.bodies]
    assert texts == ["r, cycle 0", *(f"r, cycle {n}" for n in range(3)), "r is finished"]
    assert receiver.ids[0] == receiver.ids[1]
    assert len(set(receiver.ids)) == 4


def test_only_what_the_plan_names_is_told(told, receiver):
    run = told(webhook=receiver.url, on=("end",))
    run.event("run_failed", reason="no data")
    run.event("decision", cycle=0, decision="promote", why="better")
    run.event("run_finished", **END)
    run.notify()
    run.settled()
    assert [row.kind for row in run.rows] == ["end"]


def test_a_plan_that_names_nobody_tells_nobody(told):
    run = told()
    run.event("run_finished", **END)
    run.notify()
    assert run.rows == []
    assert run.folder / LOCK not in started


def test_a_server_that_holds_a_message_does_not_hold_the_run(told, receiver):
    receiver.gate.clear()
    run = told(webhook=receiver.url)
    run.event("run_finished", **END)
    run.notify()
    wait_for(lambda: receiver.bodies, "the message")
    # The message is with the server, which has not answered, and the caller is here.
    run.event("run_resumed")
    run.event("run_finished", **END)
    run.notify()
    assert run.states == ["pending", "pending"]
    receiver.gate.set()
    run.settled()
    assert run.states == ["sent", "sent"]
    run.exited()


def test_a_killed_sender_is_followed_by_another_that_sends_the_same_message(told, receiver):
    receiver.gate.clear()
    run = told(webhook=receiver.url)
    run.event("run_finished", **END)
    run.notify()
    wait_for(lambda: receiver.bodies, "the message")
    killed = run.sender
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: not is_held(run.folder / LOCK), "the kill")
    assert run.states == ["pending"]
    receiver.gate.set()
    run.notify()
    assert run.sender != killed
    run.settled()
    assert receiver.ids == [receiver.ids[0]] * 2
    assert [(row.state, row.tries) for row in run.rows] == [("sent", 2)]


def test_a_sender_outlives_the_process_that_started_it(told, receiver):
    receiver.gate.clear()
    run = told(webhook=receiver.url)
    run.event("run_finished", **END)
    code = (
        "import sys\nfrom pathlib import Path\nimport msgspec\n"
        "from lefleet.ledger import open_ledger\nfrom lefleet.notify import notify_new\n"
        "from lefleet.records import NotifyPlan\n"
        "ledger = open_ledger(Path(sys.argv[1]))\n"
        "plan = msgspec.convert(ledger.run('r').config['notify'], NotifyPlan)\n"
        "notify_new(ledger, Path(sys.argv[1]), 'r', plan)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(run.workdir)], check=True)
    wait_for(lambda: receiver.bodies, "the message")
    receiver.gate.set()
    run.settled()
    assert run.states == ["sent"]


def test_two_senders_exclude_each_other(told, receiver):
    receiver.gate.clear()
    run = told(webhook=receiver.url)
    run.event("run_finished", **END)
    run.notify()
    wait_for(lambda: receiver.bodies, "the message")
    argv = [sys.executable, "-m", "lefleet", "notify", "exec", str(run.workdir), "r"]
    assert subprocess.run(argv, check=False).returncode == 0
    first = run.sender
    run.notify()
    assert run.sender == first
    receiver.gate.set()
    run.settled()
    assert len(receiver.bodies) == 1


def test_while_a_sender_starts_no_other_one_is_started(told, receiver):
    run = told(webhook=receiver.url)
    run.event("run_finished", **END)
    run.notify()
    first = run.sender
    for _ in range(20):
        run.notify()
    assert run.sender == first
    run.settled()
    run.exited()
    assert len(receiver.bodies) == 1


def test_a_message_that_comes_when_a_sender_is_done_is_not_left_behind(told, receiver):
    run = told(webhook=receiver.url)
    for number in range(5):
        run.event("run_stopped", reason=str(number))
        run.notify()
        run.settled()
    assert [body["text"][-1] for body in receiver.bodies] == list("01234")


def test_a_command_that_fails_is_tried_again(told, script):
    code = "n = open('n', 'a'); n.write('x'); n.close()\nsys.exit(len(open('n').read()) < 2)"
    run = told(command=(script(code),))
    run.event("run_finished", **END)
    run.notify()
    run.settled()
    assert [(row.state, row.tries, row.error) for row in run.rows] == [("sent", 2, "")]
    assert "try 1: notify.command: tell-me exited with code 1." in (run.folder / LOG).read_text()


@pytest.mark.parametrize("is_in_config", [True, False])
def test_the_command_of_a_runs_config_is_allowed_and_no_other(told, script, is_in_config):
    """By the rules of the controller, which its senders get."""
    program = script("open('told', 'w')")
    run = told(command=(program,))
    named = run.plan if is_in_config else NotifyPlan(command=("true",))
    config = RunConfig(name="r", ladder=(Rung(name="a"),), notify=named)
    run.event("run_finished", **END)
    with installed(rules_for(find(run.workdir), config, run.workdir)):
        run.notify()
        run.settled()
    assert (run.folder / "told").exists() == is_in_config
    (row,) = run.rows
    if is_in_config:
        assert row.state == "sent"
    else:
        assert (row.state, row.tries) == ("failed", 1)
        assert row.error.startswith(f"commands: {program} is not an allowed program.")


@pytest.fixture
def sender(told, monkeypatch):
    """Makes a sender in this process that does not wait."""
    monkeypatch.setattr("lefleet.notify.sender.FIRST_WAIT_S", 0.0)
    monkeypatch.setattr("lefleet.notify.outbox._see_to_sender", lambda workdir, run: None)

    def make(**plan):
        run = told(**plan)
        row = run.ledger.run("r")
        return run, Sender(run.ledger, row, run.folder, channels(run.plan, run.folder))

    return make


def test_what_cannot_be_sent_is_given_up_after_some_tries_and_an_event_tells_of_it(
    sender, receiver
):
    run, sending = sender(webhook=receiver.url)
    receiver.statuses = [500] * 100
    run.event("run_finished", **END)
    run.notify()
    sending.run()
    problem = "notify.webhook: http://127.0.0.1 answered with status 500."
    assert [(row.state, row.tries, row.error) for row in run.rows] == [
        ("failed", MAX_TRIES, problem)
    ]
    last = run.ledger.events("r")[-1]
    assert (last.kind, last.data["error"]) == ("notify_failed", problem)
    assert last.data["kind_of_notification"] == "end"
    run.notify()
    assert len(run.rows) == 1
    assert len(receiver.bodies) == MAX_TRIES


def test_a_channel_that_fails_does_not_delay_the_other(sender, receiver, script):
    run, sending = sender(webhook=receiver.url, command=(script("open('t', 'a').write('x')"),))
    receiver.statuses = [500] * MAX_TRIES
    run.event("run_stopped", reason="first")
    run.event("run_stopped", reason="second")
    run.notify()
    sending.run()
    assert (run.folder / "t").read_text() == "xx"
    assert run.states == ["failed", "sent"]
    assert [row.tries for row in run.rows] == [MAX_TRIES, 1]
    assert len(receiver.bodies) == MAX_TRIES + 1


def test_a_message_that_kills_every_sender_is_given_up(sender, receiver):
    run, sending = sender(webhook=receiver.url)
    run.event("run_finished", **END)
    run.notify()
    run.ledger.notifications.update(run.rows[0].id, "pending", MAX_TRIES)
    sending.run()
    assert [(row.state, row.error) for row in run.rows] == [("failed", "every sender was killed")]
    assert receiver.bodies == []


def test_a_missing_variable_fails_at_once_with_the_remedy(sender, monkeypatch):
    monkeypatch.delenv("NO_HOOK", raising=False)
    run, sending = sender(webhook="$NO_HOOK")
    run.event("run_finished", **END)
    run.notify()
    sending.run()
    ((state, tries, error),) = [(row.state, row.tries, row.error) for row in run.rows]
    assert (state, tries) == ("failed", 1)
    assert error.startswith("notify.webhook: the environment variable NO_HOOK is not set. Set it")


def test_the_log_stays_small(sender, receiver, monkeypatch):
    monkeypatch.setattr("lefleet.notify.sender._LOG_BYTES", 2000)
    run, sending = sender(webhook=receiver.url)
    for number in range(60):
        run.event("run_stopped", reason=str(number))
    run.notify()
    sending.run()
    lines = (run.folder / LOG).read_text().splitlines()
    assert sum(map(len, lines)) < 2200
    assert all("sent" in line for line in lines)


def test_waits_double_up_to_a_limit_and_vary():
    longest = [backoff_s(tries, 1.0) for tries in range(1, 13)]
    assert longest[:4] == [1.0, 2.0, 4.0, 8.0]
    assert longest[-1] == 600.0
    assert backoff_s(3, 0.0) == 2.0


def test_a_run_that_is_not_there_is_said_in_one_line(tmp_path, told, capsys):
    run = told()
    assert send_pending(run.workdir, "other") == 1
    assert capsys.readouterr().err.startswith("run: there is no run called other in ")


def test_a_run_goes_on_where_no_sender_can_be_started(told, receiver, caplog):
    run = told(webhook=receiver.url)
    run.event("run_finished", **END)
    (run.folder / LOG).mkdir()
    run.notify()
    assert "Nobody can be told of r" in caplog.text
    (run.folder / LOG).rmdir()
    run.notify()
    run.settled()
    assert run.states == ["sent"]
