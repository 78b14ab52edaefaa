"""constitution as a user types it, and commands that it denies: exit code 4, nothing started."""

import json
import os
import subprocess
import sys

import msgspec
import pytest
import yaml

from lefleet.constitution import find, rules_for, stored
from lefleet.constitution.active import RULES_VARIABLE
from lefleet.constitution.schema import packaged_text
from lefleet.ledger import open_ledger
from lefleet.loop.rules import launch_rules
from tests.loop.states import config
from tests.permissive import VALUE

REAL = ("--robot.type=so101_follower", "--robot.port=/dev/ttyACM0", "--robot.id=arm-7")
REMOTE = ("--inference.type=remote", "--inference.connect=tcp/127.0.0.1:1")


def write(folder, **fields):
    """A constitution.yaml: the shipped one with these fields."""
    folder.mkdir(exist_ok=True)
    path = folder / "constitution.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(packaged_text()) | fields))
    return path


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "run.yaml"
    raw = json.loads(msgspec.json.encode(config(name="mine")))
    path.write_text(yaml.safe_dump(raw))
    return path


def test_init_writes_an_annotated_copy_once(lefleet, tmp_path):
    code, out, err = lefleet("constitution", "init")
    assert code == 0
    assert "runs/constitution.yaml is written" in out
    assert (tmp_path / "runs" / "constitution.yaml").read_text() == packaged_text()
    (tmp_path / "runs" / "constitution.yaml").write_text("version: 1 # mine\n")
    code, _, err = lefleet("constitution", "init")
    assert code == 2
    assert "exists" in err
    assert (tmp_path / "runs" / "constitution.yaml").read_text() == "version: 1 # mine\n"


def test_init_into_a_file_is_bad_input(lefleet, tmp_path):
    (tmp_path / "runs").write_text("")
    code, _, err = lefleet("constitution", "init")
    assert code == 2
    assert err.startswith("lefleet: ")


def test_check_takes_the_file_the_work_folder_or_the_shipped_one(lefleet, tmp_path):
    assert lefleet("constitution", "check")[1] == (
        "the constitution that comes with LeFleet is valid.\n"
    )
    path = write(tmp_path / "runs")
    assert lefleet("constitution", "check")[1] == f"{path} is valid.\n"
    path.write_text("version: 1\ncaps: {stepps: 5}\n")
    code, _, err = lefleet("constitution", "check")
    assert code == 2
    assert err == (f"lefleet: {path}: there is no field caps.stepps. Did you mean caps.steps?\n")
    assert lefleet("constitution", "check", "none.yaml")[0] == 2


def test_check_says_whether_a_run_would_be_allowed(lefleet, tmp_path, run_file):
    code, out, _ = lefleet("constitution", "check", "-c", str(run_file))
    assert (code, out.split()[-3:]) == (0, ["and", "allows", "mine."])
    strict = write(tmp_path / "runs", caps={"steps": 1})
    code, out, err = lefleet("constitution", "check", "-c", str(run_file))
    assert (code, out) == (4, "")
    assert err.startswith("lefleet: caps.steps: steps of rung ")
    assert str(strict) in err
    code, out, _ = lefleet("constitution", "check", "-c", str(run_file), "--json", "--workdir", "x")
    assert json.loads(out)["allowed"] is True


def test_explain_and_diff_take_files_runs_and_the_default(lefleet, tmp_path):
    workdir = tmp_path / "runs"
    own = config(name="mine")
    with_rules = stored(rules_for(find(workdir), own, workdir))
    ledger = open_ledger(workdir)
    ledger.create_run("mine", msgspec.to_builtins(own), constitution=with_rules)
    ledger.create_run("old", msgspec.to_builtins(config(name="old")))
    ledger.close()
    path = write(workdir, real_hardware=True, caps={"steps": 5})

    code, out, _ = lefleet("constitution", "explain", "mine")
    assert code == 0
    assert "nothing real may move" in out
    assert "own folders" in out
    code, out, _ = lefleet("constitution", "explain", str(path), "--json")
    said = json.loads(out)
    assert said["rules"]["constitution"]["real_hardware"] is True
    assert {"field": "caps.steps", "words": "at most 5"} in said["lines"]

    code, out, _ = lefleet("constitution", "diff", "default", str(path))
    assert code == 0
    assert "+ real_hardware: real robots may move\n" in out
    assert "- caps.steps: at most 5, before at most 10000000\n" in out
    assert "+ caps.pairs: no limit, before at most 100000\n" in out
    code, out, _ = lefleet("constitution", "diff", "mine", "mine")
    assert out == "They allow the same.\n"

    assert lefleet("constitution", "explain", "none")[0] == 2
    code, _, err = lefleet("constitution", "explain", "old")
    assert code == 2
    assert "begun before runs kept their rules" in err


def test_a_real_robot_is_denied_by_default_with_what_to_do(lefleet):
    code, out, err = lefleet("rollout", *REAL, *REMOTE)
    assert (code, out) == (4, "")
    assert err == (
        "lefleet: real_hardware: robot type so101_follower is real hardware, and nothing real may "
        "move. If it may: set real_hardware: true in constitution.yaml of the work folder (make "
        "it: lefleet constitution init). If it is a simulation: add so101_follower to "
        "robots.simulated there.\n"
    )


@pytest.mark.parametrize(
    "flags",
    [
        ("--robot.type", "so101_follower", "--robot.port", "/dev/none", *REMOTE),
        ("--robot.type=lefleet_sim", "--robot.type=so101_follower", *REMOTE),
        ("--robot.type=lefleet_sim", "--teleop.type=so101_leader", "--teleop.port=/x", *REMOTE),
        ("--config_path={file}", *REMOTE),
        ("--robot=include {robot}", *REMOTE),
    ],
    ids=lambda flags: flags[0],
)
def test_no_way_to_write_the_flags_moves_a_real_robot(lefleet, tmp_path, flags):
    (tmp_path / "rollout.yaml").write_text("robot: {type: so101_follower, port: /dev/none}\n")
    (tmp_path / "robot.yaml").write_text("{type: so101_follower, port: /dev/none}\n")
    named = {"file": tmp_path / "rollout.yaml", "robot": tmp_path / "robot.yaml"}
    code, _, err = lefleet("rollout", *(one.format(**named) for one in flags))
    assert code == 4, err
    assert "real_hardware" in err


def test_a_variable_of_the_shell_does_not_let_a_real_robot_move(lefleet, monkeypatch):
    monkeypatch.setenv(RULES_VARIABLE, VALUE)
    assert lefleet("rollout", *REAL, *REMOTE)[0] == 4


def test_a_robot_that_the_constitution_allows_is_looked_for(lefleet, tmp_path):
    """It fails later, because its driver is not installed, or there is no server."""
    file = write(tmp_path / "elsewhere", real_hardware=True)
    code, _, err = lefleet("rollout", *REAL, *REMOTE, f"--constitution={file}")
    assert code in (1, 2), err
    write(tmp_path / "runs", real_hardware=True)
    assert lefleet("rollout", *REAL, *REMOTE)[0] == code


@pytest.mark.parametrize("flags", [("--constitution",), ("--constitution=",)])
def test_a_constitution_needs_a_file(lefleet, flags):
    code, _, err = lefleet("rollout", *REAL, *flags)
    assert code == 2
    assert "--constitution=PATH" in err


def test_a_plugin_is_not_imported_before_it_is_allowed(lefleet, tmp_path, monkeypatch):
    (tmp_path / "evil_robot.py").write_text("open('touched', 'w')\n__path__ = []\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path / "runs", own_config=False)
    flags = ("--robot.type=lefleet_sim", *REMOTE, "--robot.discover_packages_path=evil_robot")
    code, _, err = lefleet("rollout", *flags)
    assert code == 4, err
    assert "plugins: the package to import evil_robot is not listed" in err
    assert not (tmp_path / "touched").exists()


def test_help_is_shown_for_a_robot_that_may_not_move(lefleet):
    code, out, _ = lefleet("rollout", "--robot.type=so101_follower", "--help")
    assert code == 0
    assert "real_hardware" in out


def test_a_server_does_not_load_what_is_not_allowed(lefleet, tmp_path, checkpoint_of):
    policy = str(checkpoint_of("act_environment"))
    write(tmp_path / "runs", own_config=False)
    code, _, err = lefleet("serve", f"--model.repo_or_path={policy}")
    assert code == 4
    assert "checkpoints: the checkpoint" in err
    write(tmp_path / "runs", own_config=False, checkpoints=[policy])
    packages = "--model.discover_packages=[evil_policy]"
    code, _, err = lefleet("serve", f"--model.repo_or_path={policy}", packages)
    assert code == 4
    assert "plugins: the package to import evil_policy" in err
    task = "--default_task=Kill the lights."
    code, _, err = lefleet("serve", f"--model.repo_or_path={policy}", task)
    assert code == 4
    assert "tasks.forbidden_words" in err


def test_a_server_takes_its_constitution_from_its_manifest(lefleet, tmp_path, checkpoint_of):
    file = write(tmp_path / "elsewhere", own_config=False)
    policy = str(checkpoint_of("act_environment"))
    code, _, err = lefleet("serve", f"--model.repo_or_path={policy}", f"--constitution={file}")
    assert code == 4
    assert str(file) in err


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        (("collect", "expert", "--tasks", "push", "--episodes-per-task", "3"), "episodes_per_task"),
        (("train", "--dataset", "d", "--steps", "3"), "steps"),
        (("eval", "--checkpoint", "c", "--episodes-per-task", "3"), "episodes_per_task"),
    ],
)
def test_a_stage_above_a_cap_leaves_no_folder(lefleet, tmp_path, command, rule):
    for name in ("d", "c"):
        (tmp_path / name).mkdir()
    write(tmp_path / "runs", caps={"steps": 2, "episodes_per_task": 2})
    code, out, err = lefleet(*command, "--out", "out")
    assert (code, out) == (4, ""), err
    assert f"lefleet: caps.{rule}: " in err
    assert not (tmp_path / "out").exists()


def test_flags_for_lerobot_must_be_written_in_the_one_way_that_can_be_judged(lefleet, tmp_path):
    (tmp_path / "d").mkdir()
    train = ("train", "--dataset", "d", "--out", "out", "--", "--wandb.enable", "true")
    code, _, err = lefleet(*train)
    assert code == 4
    assert "Write --wandb.enable=true." in err
    assert not (tmp_path / "out").exists()


def test_a_denial_in_the_child_of_a_command_is_the_commands(tmp_path):
    """The stage's own process judges again, with the rules that it was handed."""
    from lefleet.constitution import Grants, installed
    from lefleet.errors import Denied
    from lefleet.records import ExpertDemos
    from lefleet.stages.run import run_in_child
    from tests.constitution.cases import rules

    own = rules(Grants(folders=(str(tmp_path),)), commands={"lefleet": None})
    with installed(own), pytest.raises(Denied) as raised:
        run_in_child(ExpertDemos(tasks=("push",), episodes_per_task=1), tmp_path / "out")
    assert raised.value.rule == "commands"
    assert "lefleet.rollouts.worker is not an allowed program" in raised.value.reason
    assert not (tmp_path / "out").exists()


def test_the_command_is_light():
    code = "import sys; from lefleet.cli import main; main()\n"
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{code}assert not {{'torch', 'lerobot'}} & set(sys.modules)",
            "constitution",
            "explain",
        ],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--help", "--x.discover_packages_path=no_such_package"),
        (
            "--x-y.discover_packages_path=no_such_package",
            "--x_y.discover_packages_path=lefleet.sim",
        ),
        ("--x.discover_packages_path", "no_such_package"),
    ],
)
def test_no_spelling_of_a_flag_imports_a_package_that_is_not_allowed(lefleet, tmp_path, flags):
    file = tmp_path / "strict.yaml"
    file.write_text("version: 1\nown_config: false\n")
    code, _, err = lefleet("rollout", *flags, f"--constitution={file}")
    assert (code, "no_such_package" in err) == (4, True)


def test_the_file_of_another_work_folder_does_not_matter(tmp_path, monkeypatch, lefleet):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "constitution.yaml").write_text("version: 99")
    assert lefleet("demo", "--workdir", "other", "--plan")[0] == 0
    argv = (sys.executable, "-m", "lefleet", "controller", "exec", str(tmp_path / "other"), "demo")
    launch_rules(tmp_path / "other").check_argv(argv)
