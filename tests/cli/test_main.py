"""Exit codes, error style, and what goes to stdout."""

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

from lefleet.records import DatasetRecord, ExpertDemos, decode
from tests.samples import dataset_record, finished_stage


@pytest.fixture
def finished_demos(tmp_path) -> tuple[str, ...]:
    """Command of a stage that is done."""
    finished_stage(tmp_path / "demos", ExpertDemos(), dataset_record())
    return ("collect", "expert", "--out", "demos")


def test_an_unknown_task_exits_2_suggests_a_near_one_and_leaves_no_folder(lefleet, tmp_path):
    code, out, err = lefleet("collect", "expert", "--tasks", "pussh", "--out", "demos")
    assert code == 2
    assert out == ""
    assert err.endswith(
        "lefleet: tasks: no MetaWorld task or task set is called 'pussh'. Did you mean push?\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_evaluating_tasks_of_ones_own_is_told_about_the_environment(lefleet, tmp_path):
    code, out, err = lefleet(
        "eval", "--checkpoint", "c", "--tasks", "open the drawer", "--out", "eval"
    )
    assert (code, out) == (2, "")
    assert "tasks: no MetaWorld task or task set is called 'open the drawer'." in err
    assert "--env type NAME, for instance --env type pusht." in err
    assert list(tmp_path.iterdir()) == []


def test_a_number_out_of_its_range_exits_2_and_leaves_no_folder(lefleet, tmp_path):
    code, _, err = lefleet("collect", "expert", "--noise", "3", "--out", "demos")
    assert code == 2
    assert err == "lefleet: noise: Expected `float` <= 1.0.\n"
    assert list(tmp_path.iterdir()) == []


def test_an_argument_that_cannot_be_read_exits_2(lefleet):
    code, _, err = lefleet("collect", "expert", "--seed", "x", "--out", "demos")
    assert code == 2
    assert "--seed" in err


def test_further_flags_on_another_command_exit_2(lefleet):
    code, _, err = lefleet("eval", "--checkpoint", "c", "--out", "a", "--", "--x=1")
    assert code == 2
    assert err.startswith("lefleet: --: only train takes further flags.")


def test_an_error_shows_its_stack_only_with_debug(lefleet):
    _, _, calm = lefleet("collect", "expert", "--noise", "3", "--out", "demos")
    _, _, detailed = lefleet("collect", "expert", "--noise", "3", "--out", "demos", "--debug")
    assert "Traceback" not in calm
    assert "Traceback" in detailed


def test_json_is_all_there_is_on_stdout(lefleet, finished_demos):
    code, out, _ = lefleet(*finished_demos, "--json")
    assert code == 0
    assert decode(out, DatasetRecord, "stdout") == dataset_record()


def test_without_json_a_person_reads_the_result(lefleet, finished_demos, tmp_path):
    code, out, _ = lefleet(*finished_demos)
    assert code == 0
    assert out.startswith("3 episodes, 30 frames (expert)\n")
    assert str(tmp_path / "demos" / "record.json") in out


def test_an_error_with_json_leaves_stdout_empty(lefleet):
    code, out, err = lefleet("eval", "--checkpoint", "missing", "--out", "a", "--json")
    assert code == 2
    assert out == ""
    assert err.startswith("lefleet: checkpoint: missing does not exist.")


def test_a_folder_made_for_another_request_exits_2(lefleet, finished_demos):
    code, _, err = lefleet(*finished_demos, "--seed", "5")
    assert code == 2
    assert "was made for another request (seed is 0 there, 5 here)" in err


def test_help_exits_0_and_lists_the_commands(lefleet):
    code, out, _ = lefleet("--help")
    assert code == 0
    assert all(name in out for name in ("collect", "train", "eval", "improve", "doctor"))


def test_without_a_command_the_list_of_them_is_an_error(lefleet):
    code, out, err = lefleet()
    assert (code, out) == (2, "")
    assert err == lefleet("--help")[1]


@pytest.mark.parametrize("command", ["eval", "train", "improve", "collect corrections", "compare"])
def test_help_names_every_form_of_a_checkpoint(lefleet, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "300")
    code, out, _ = lefleet(*command.split(), "--help")
    assert code == 0
    assert "RUN (its blessed one), RUN:CYCLE, " in out
    assert "blessed (the newest blessed one)" in out
    assert "hub id" in out


def test_a_flag_that_switches_something_off_says_what_happens_then(lefleet, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    _, out, _ = lefleet("train", "--help")
    words = " ".join(out.replace("│", " ").split())
    assert "--no-memory-data Let LeRobot read state data from disk, frame by frame;" in words


def test_the_version_is_that_of_the_installed_package(lefleet):
    assert lefleet("--version") == (0, f"{version('lefleet')}\n", "")


@pytest.mark.parametrize(
    ("command", "is_resumed"),
    [
        ("collect expert --out x", True),
        ("compare a b", True),
        ("compare --from x.csv", False),
        ("compare --from=x.csv", False),
        ("run -c x.yaml --plan", False),
        ("stop demo", False),
        ("fleet", False),
    ],
)
def test_an_interrupt_exits_130_and_says_how_to_resume_where_that_is_possible(
    lefleet, monkeypatch, command, is_resumed
):
    def interrupted(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["lefleet.cli.main"], "_run", interrupted)
    hint = " Run the same command again to resume." if is_resumed else ""
    assert lefleet(*command.split()) == (130, "", f"\nlefleet: interrupted.{hint}\n")


def test_the_program_runs_as_a_module_and_exits_with_mains_code(finished_demos, tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess:
        argv = [sys.executable, "-m", "lefleet", *finished_demos, *arguments]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False)

    good, bad = run("--json"), run("--noise", "3")
    assert (good.returncode, bad.returncode) == (0, 2)
    assert json.loads(good.stdout)["kind"] == "dataset_record"
    assert bad.stdout == b""
