"""run, resume and stop: what scripts read, and what is refused."""

import json
import time

import msgspec
import pytest

from lefleet.cli import progress
from lefleet.cli.commands import DemoCommand, RunCommand
from lefleet.cli.parse import parse
from lefleet.errors import BadInput
from lefleet.loop import runs
from lefleet.records import RunConfig
from lefleet.server.manifest import Manifest
from lefleet.stages.progress import DIGESTING
from tests.devices import needs_no_gpu
from tests.loop.states import config


def test_a_workdir_of_an_unknown_user_exits_2(lefleet):
    code, _, err = lefleet("status", "--workdir", "~no-such-user/runs")
    assert code == 2
    assert err.startswith("lefleet: workdir: ~no-such-user/runs: there is no such user.")


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


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("run -c a", RunConfig),
        ("demo", RunConfig),
        ("resume a", RunConfig),
        ("serve", Manifest),
        ("replay ring", Manifest),
    ],
)
def test_no_field_is_taken_for_a_misspelt_flag(line, kind):
    overrides = tuple(f"--{field}=1" for field in kind.__struct_fields__)
    assert parse([*line.split(), *overrides]).overrides == overrides


@pytest.mark.parametrize("command", ["stop a", "status", "doctor"])
def test_other_commands_take_no_overrides(lefleet, command):
    code, _, err = lefleet(*command.split(), "--a.b=c")
    assert code == 2
    assert "a.b" in err


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("resume a --seed=3", "lefleet: seed: it cannot be changed in a"),
        ("resume --budgets.cycles=3 a --a.b=c", "lefleet: --a.b: there is no field a."),
        (
            "resume a --budget.cycles=6",
            "lefleet: --budget.cycles: there is no field budget. Did you mean --budgets.cycles?",
        ),
        (
            "resume a --cycles=6",
            "lefleet: --cycles: there is no field cycles. Did you mean --budgets.cycles?",
        ),
        ("resume --budgets.cycles=1 a", "lefleet: budgets.cycles: 2 cycles of a have begun"),
        ("resume a --budgets.cycles 6", "lefleet: --budgets.cycles: its value must follow an =."),
        ("resume --all --budgets.cycles=6", "lefleet: --budgets.cycles=6: configs are changed"),
        ("run -c {} --from a:0", "lefleet: name: there is a run called a, which started without"),
        ("run -c {} --from=b --name=c", "lefleet: from: b has not decided about a cycle yet."),
        ("run -c {} --from a --name=a --plan", "lefleet: from: a cannot start from itself."),
    ],
)
def test_a_run_that_cannot_continue_or_start_so_exits_2(lefleet, two_runs, tmp_path, line, problem):
    path = tmp_path / "a.yaml"
    path.write_text("name: a\ntasks: [push]\nladder: [{name: small}]\n")
    code, out, err = lefleet(*line.format(path).split())
    assert (code, out) == (2, "")
    assert err.startswith(problem)
    assert (two_runs.run("a").budgets, two_runs.run("c")) == (None, None)


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


@pytest.mark.parametrize(
    ("line", "function", "phase"),
    [
        ("stop b", "is_controlled", "waiting for the stage and the controller to exit"),
        ("resume a", "Controller", "restoring missing files"),
        ("resume a --budgets.cycles=9", "is_controlled", "waiting for the controller to exit"),
        ("run -c {} --from a --name=c", "find_origin", "computing digests"),
    ],
)
def test_what_a_command_waits_for_is_named(
    lefleet, two_runs, tmp_path, monkeypatch, line, function, phase
):
    def slow(*arguments):
        if function == "find_origin":
            arguments[-1](DIGESTING)
        time.sleep(0.5)
        raise BadInput("enough.")

    two_runs.resume_run("b")
    path = tmp_path / "a.yaml"
    path.write_text("name: a\ntasks: [push]\nladder: [{name: small}]\n")
    monkeypatch.setattr(progress, "_PHASE_S", 0.01)
    monkeypatch.setattr(runs, function, slow)
    code, out, err = lefleet(*line.format(path).split())
    assert (code, out) == (2, "")
    name = "c" if "--from" in line else line.split()[1]
    assert err == f"{name}: {phase}, 0 s\nlefleet: enough.\n"


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


@needs_no_gpu
def test_a_missing_device_exits_2_and_leaves_nothing_behind(lefleet, tmp_path):
    code, _, err = lefleet("demo", "--device=cuda")
    assert code == 2
    assert "lefleet: device: cuda cannot be used: " in err
    assert "There is: cpu." in err
    assert list(tmp_path.iterdir()) == []


@needs_no_gpu
def test_a_plan_shows_the_device_that_auto_means_here(lefleet):
    code, out, _ = lefleet("demo", "--device=auto", "--plan")
    assert code == 0
    assert "--policy.device=cpu" in out


@needs_no_gpu
def test_a_plan_for_a_machine_with_gpus_shows_how_a_training_is_kept_to_one(lefleet, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    code, out, _ = lefleet("demo", "--device=cuda:1", "--plan")
    assert (code, "problem  device: cuda:1 cannot be used" in out) == (2, True)
    assert "env CUDA_VISIBLE_DEVICES=1 " in out
    assert "--policy.device=cuda " in out


@needs_no_gpu
def test_resume_all_goes_on_after_a_run_whose_device_is_gone(lefleet, two_runs):
    lost = msgspec.to_builtins(config(name="lost", device="cuda"))
    two_runs.create_run("lost", lost)
    code, out, err = lefleet("resume", "--all", "--json")
    assert code == 2
    assert "lefleet: lost: device: cuda cannot be used" in err
    assert {"id": "lost", "happened": "refused"} in json.loads(out)["runs"]
    assert two_runs.run("lost").state == "running"
