"""run, resume, stop and status: what scripts read, and what is refused."""

import json
import signal
import sys

import msgspec
import pytest

from lefleet.cli import main
from lefleet.cli.commands import DemoCommand, RunCommand
from lefleet.cli.parse import parse
from lefleet.cli.runs import _view
from lefleet.ledger import open_ledger
from lefleet.records import EvaluatePlan
from tests.cli.child import Child
from tests.ledger.ledgers import REQUEST, execute
from tests.loop.states import config, decision, record
from tests.loop.test_end_to_end import heeding_permissions, run

CYCLE = {"index", "decision", "success_rate", "interval", "episodes", "checkpoint_digest"}


@pytest.fixture
def two_runs(tmp_path):
    """A ledger with a finished run of one decided and one begun cycle, and an empty one."""
    ledger = open_ledger(tmp_path / "runs")
    ledger.create_run("a", msgspec.to_builtins(config(name="a")))
    for cycle, stage in ((0, "collect"), (0, "train"), (0, "evaluate"), (1, "collect")):
        attempt = ledger.start_attempt("a", cycle, stage, REQUEST)
        ledger.commit_stage(attempt, record(cycle, stage))
    ledger.record_decision("a", decision(0, "baseline", "c0"))
    ledger.set_run_state("a", "finished", "done")
    ledger.create_run("b", msgspec.to_builtins(config(name="b")))
    ledger.set_run_state("b", "stopped", "by lefleet stop")
    yield ledger
    ledger.close()


def test_an_empty_workdir_has_no_runs_and_stays_empty(lefleet, tmp_path):
    code, out, _ = lefleet("status", "--json")
    assert (code, json.loads(out)) == (0, {"runs": []})
    assert lefleet("status")[1] == "No runs yet. Start one: lefleet demo\n"
    assert list(tmp_path.iterdir()) == []


def test_status_works_in_a_folder_that_may_not_be_written_and_creates_nothing(tmp_path, two_runs):
    two_runs.close()
    runs = tmp_path / "runs"
    (runs / "b").mkdir(exist_ok=True)
    (runs / "b" / ".controller.lock").touch(0o400)
    before = sorted(runs.iterdir())
    runs.chmod(0o500)
    shown = run("status", "--json", "--workdir", runs, prefix=heeding_permissions())
    runs.chmod(0o700)
    assert shown.returncode == 0, shown.stderr
    assert [one["id"] for one in json.loads(shown.stdout)["runs"]] == ["a", "b"]
    assert sorted(runs.iterdir()) == before


def test_a_workdir_of_an_unknown_user_exits_2(lefleet):
    code, _, err = lefleet("status", "--workdir", "~no-such-user/runs")
    assert code == 2
    assert err.startswith("lefleet: workdir: ~no-such-user/runs: there is no such user.")


def test_status_shows_every_run_oldest_first(lefleet, two_runs):
    code, out, _ = lefleet("status", "--json")
    first, second = json.loads(out)["runs"]
    assert code == 0
    assert (first["id"], first["state"], first["blessed"]) == ("a", "finished", "c0")
    assert (second["id"], second["cycles"], second["blessed"]) == ("b", [], None)


def test_a_cycle_has_its_rate_and_decision(lefleet, two_runs):
    _, out, _ = lefleet("status", "a", "--json")
    done, begun = json.loads(out)["runs"][0]["cycles"]
    assert {name: done[name] for name in CYCLE} == {
        "index": 0,
        "decision": "baseline",
        "success_rate": 0.5,
        "interval": [0.0, 1.0],
        "episodes": 4,
        "checkpoint_digest": "c0",
    }
    assert {name: begun[name] for name in CYCLE} == dict.fromkeys(CYCLE) | {"index": 1}


def test_without_json_a_person_reads_the_runs(lefleet, two_runs):
    code, out, _ = lefleet("status")
    assert code == 0
    assert "a: finished (done)" in out
    assert "baseline" in out


@pytest.mark.parametrize("command", ["resume", "stop", "status"])
def test_an_unknown_run_exits_2_and_the_runs_there_are_are_named(lefleet, two_runs, command):
    code, out, err = lefleet(command, "c")
    assert (code, out) == (2, "")
    assert err == "lefleet: run: there is no run called c. Runs here: a, b.\n"


def test_resume_wants_a_name_or_all(lefleet, two_runs):
    code, _, err = lefleet("resume")
    assert code == 2
    assert "--all" in err


def test_a_finished_run_is_not_resumed(lefleet, two_runs):
    code, _, err = lefleet("resume", "a")
    assert code == 0
    assert "finished" in err
    assert two_runs.run("a").state == "finished"


def test_stopping_a_run_that_is_not_running_changes_nothing(lefleet, two_runs):
    code, _, err = lefleet("stop", "b")
    assert code == 0
    assert "b is not running: it is stopped." in err
    assert not two_runs.run("b").stop_requested


def test_a_running_run_without_a_controller_is_stopped(lefleet, two_runs):
    two_runs.resume_run("b")
    code, _, _ = lefleet("stop", "b")
    assert code == 0
    assert two_runs.run("b").state == "stopped"


def test_a_missing_config_exits_2_and_leaves_no_workdir(lefleet, tmp_path):
    code, _, err = lefleet("run", "--config", "none.yaml")
    assert code == 2
    assert err.startswith("lefleet: config: none.yaml cannot be read")
    assert list(tmp_path.iterdir()) == []


def test_an_override_of_an_unknown_field_exits_2(lefleet):
    code, _, err = lefleet("demo", "--plan", "--budgets.cycels=1")
    assert code == 2
    assert "cycels" in err


def test_a_plan_shows_overrides_and_writes_nothing(lefleet, tmp_path):
    code, out, _ = lefleet("demo", "--plan", "--budgets.cycles=1")
    assert code == 0
    assert "at most 1 cycles" in out
    assert list(tmp_path.iterdir()) == []


def test_overrides_of_run_are_kept_apart_from_its_own_flags():
    command, overrides = parse(["run", "--config=a.yaml", "--a.b=c", "--json", "--name=x"])
    assert isinstance(command, RunCommand)
    assert (str(command.config), command.json) == ("a.yaml", True)
    assert overrides == ("--a.b=c", "--name=x")


def test_demo_takes_overrides_too():
    command, overrides = parse(["demo", "--plan", "--seed=3"])
    assert (command, overrides) == (DemoCommand(plan=True), ("--seed=3",))


@pytest.mark.parametrize("command", ["resume a", "stop a", "status", "doctor"])
def test_other_commands_take_no_overrides(lefleet, command):
    code, _, err = lefleet(*command.split(), "--a.b=c")
    assert code == 2
    assert "a.b" in err


def test_resume_all_leaves_stopped_runs_alone_and_names_them(lefleet, two_runs):
    code, out, _ = lefleet("resume", "--all")
    assert (code, out) == (0, "b is stopped. Resume it with: lefleet resume b\n")
    assert two_runs.run("b").state == "stopped"


def test_resume_all_as_json_says_what_happened(lefleet, two_runs):
    code, out, _ = lefleet("resume", "--all", "--json")
    assert code == 0
    assert json.loads(out) == {
        "runs": [{"id": "a", "happened": "finished"}, {"id": "b", "happened": "stopped"}]
    }


def test_resume_takes_a_name_or_all_but_not_both(lefleet, two_runs):
    code, _, err = lefleet("resume", "b", "--all")
    assert (code, two_runs.run("b").state) == (2, "stopped")
    assert "both a name and --all" in err


def test_stop_as_json_says_how_the_run_ended(lefleet, two_runs):
    assert json.loads(lefleet("stop", "b", "--json")[1]) == {"run": "b", "state": "stopped"}
    two_runs.resume_run("b")
    assert json.loads(lefleet("stop", "b", "--json")[1]) == {"run": "b", "state": "stopped"}
    assert "run_stopped" in [event.kind for event in two_runs.events("b")][-1]


def test_a_plan_as_json_is_its_lines(lefleet):
    code, out, _ = lefleet("demo", "--plan", "--json", "--budgets.cycles=1")
    assert code == 0
    assert "at most 1 cycles" in json.loads(out)["lines"][0]


@pytest.mark.parametrize("command", ["resume", "resume a", "stop a", "status a"])
def test_a_question_about_a_run_makes_no_ledger(lefleet, tmp_path, command):
    code, _, err = lefleet(*command.split())
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert err.startswith(("lefleet: run: ", "lefleet: workdir: there is no ledger in "))


def test_resuming_all_runs_of_no_ledger_makes_none(lefleet, tmp_path):
    assert lefleet("resume", "--all") == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_workdir_that_lerobot_misreads_is_refused_and_not_made(lefleet, tmp_path):
    code, _, err = lefleet("demo", "--workdir", "my #1 runs")
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert err.startswith("lefleet: workdir: ")


def test_only_a_blessed_checkpoint_is_called_blessed(lefleet, two_runs):
    _, out, _ = lefleet("status", "a")
    lines = out.splitlines()
    assert [("blessed" in line) for line in lines if line.startswith(("0", "1"))] == [True, False]


def test_nothing_is_blessed_where_nothing_is(lefleet, two_runs):
    two_runs.commit_stage(two_runs.start_attempt("b", 0, "collect", REQUEST), record(0, "collect"))
    assert "blessed" not in lefleet("status", "b")[1]


def test_a_viewer_shows_the_last_events_of_a_run(two_runs, tmp_path, monkeypatch, capsys):
    find = two_runs.run

    def run_that_ends_now(name):
        two_runs.record_decision(name, decision(0, "stop"))
        two_runs.set_run_state(name, "finished")
        return find(name)

    monkeypatch.setattr(two_runs, "run", run_that_ends_now)
    assert _view(two_runs, tmp_path / "runs", "b") == "finished"
    assert "cycle 0: STOP" in capsys.readouterr().err


@pytest.fixture
def interrupted(two_runs, tmp_path):
    """Run b has been running for long, and has no running controller."""
    two_runs.resume_run("b")
    execute(tmp_path / "runs" / "ledger.db", "UPDATE run SET resumed_at = 5.0 WHERE id = 'b'")


def test_a_run_without_a_controller_is_interrupted(lefleet, interrupted):
    code, out, err = lefleet("status", "--watch")
    assert code == 0
    assert "b: interrupted" in out
    assert err == "b has no running controller. Resume it with: lefleet resume b\n"


def test_the_remedy_names_the_workdir_that_the_run_is_in(
    lefleet, interrupted, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path / "runs")
    _, _, err = lefleet("status", "--workdir", ".")
    assert err.endswith(f": lefleet resume b --workdir {tmp_path / 'runs'}\n")


def test_scripts_see_that_a_run_has_no_controller(lefleet, interrupted):
    _, b = json.loads(lefleet("status", "--json")[1])["runs"]
    assert (b["state"], b["controlled"]) == ("running", False)


def test_a_run_that_was_started_a_moment_ago_is_not_called_interrupted(lefleet, two_runs):
    two_runs.resume_run("b")
    assert "b: running" in lefleet("status")[1]


def test_a_run_that_cannot_be_read_does_not_hide_the_others(lefleet, two_runs):
    two_runs.create_run("c", {"name": "c", "colour": "red"})
    a, _, c = json.loads(lefleet("status", "--json")[1])["runs"]
    assert (a["blessed"], a["problem"]) == ("c0", "")
    assert (c["id"], c["cycles"]) == ("c", [])
    assert "colour" in c["problem"]
    code, out, _ = lefleet("status")
    assert code == 0
    assert "c: running\nrun: this lefleet cannot read the config of c: Object" in out
    for command in ("stop", "resume"):
        two_runs.set_run_state("c", "running" if command == "stop" else "finished")
        code, _, err = lefleet(command, "c")
        assert code == 2
        assert "this lefleet cannot read the config of c" in err


def test_videos_are_those_of_the_highest_cycle(lefleet, two_runs, tmp_path):
    for number in (2, 10, 9):
        (tmp_path / f"runs/a/cycle_{number}/evaluate/videos").mkdir(parents=True)
    assert f"{tmp_path}/runs/a/cycle_10/evaluate/videos" in lefleet("resume", "a")[1]


def test_a_blessed_checkpoint_can_be_served(lefleet, two_runs, tmp_path, monkeypatch):
    assert "\nServe it:   lefleet serve a\n" in lefleet("resume", "a")[1]
    (tmp_path / "else where").mkdir()
    monkeypatch.chdir(tmp_path / "else where")
    _, out, _ = lefleet("resume", "a", "--workdir", "../runs")
    assert f"\nServe it:   lefleet serve a --workdir {tmp_path}/runs\n" in out
    assert f"\nTry it:     lefleet eval --checkpoint a --workdir {tmp_path}/runs --tasks " in out


@pytest.mark.parametrize(
    ("called", "shown"),
    [
        (".venv/bin/lefleet", ".venv/bin/lefleet"),
        ("{bin}/lefleet", "lefleet"),
        ("/somewhere/lefleet/__main__.py", "lefleet"),
    ],
)
def test_commands_to_copy_name_the_program_as_it_was_called(
    two_runs, tmp_path, monkeypatch, capsys, called, shown
):
    program = tmp_path / "bin" / "lefleet"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(sys, "argv", [called.format(bin=program.parent), "resume", "a"])
    assert main() == 0
    out = capsys.readouterr().out
    assert f"\nTry it:     {shown} eval --checkpoint a --tasks " in out
    assert f"\nServe it:   {shown} serve a\n" in out


def test_without_a_blessed_checkpoint_there_is_nothing_to_serve(lefleet, two_runs):
    two_runs.set_run_state("b", "finished", "done")
    assert "lefleet serve" not in lefleet("resume", "b")[1]


def test_videos_that_were_not_requested_are_not_missing(lefleet, two_runs):
    no_videos = config(name="d", evaluate=EvaluatePlan(videos_per_task=0))
    two_runs.create_run("d", msgspec.to_builtins(no_videos))
    two_runs.set_run_state("d", "finished", "done")
    assert "Videos:     none requested" in lefleet("resume", "d")[1]


def test_watching_ends_with_an_interrupt_and_says_that_the_runs_continue(two_runs, tmp_path):
    two_runs.resume_run("b")
    with Child("status", "--watch", folder=tmp_path) as child:
        child.wait_for(lambda one: any("b: running" in line for line in one.out))
        child.signal(signal.SIGINT)
        assert child.end() == 0
    assert [line for line in child.err if line] == ["Stopped watching; the runs continue."]
