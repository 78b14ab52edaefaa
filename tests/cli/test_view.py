"""status, the view of a run and its report: what people and scripts read."""

import fcntl
import json
import re
import signal
import sys
import time
from contextlib import contextmanager

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from lefleet.cli import main
from lefleet.cli.progress import ProgressLines
from lefleet.cli.view import Follower, _view, _watch_in_lines, _watch_json
from lefleet.cli.watch import RunScreen, evidence_text
from lefleet.queries.cycles import EvidencePath
from lefleet.records import EvaluatePlan
from lefleet.stages import Update
from lefleet.stages.progress import ProgressWriter
from tests.cli.child import Child
from tests.cli.terminal import CTRL_C, Terminal
from tests.ledger.ledgers import REQUEST, execute
from tests.loop.states import config, decision, record
from tests.loop.test_end_to_end import heeding_permissions, run

CYCLE = {"index", "decision", "success_rate", "interval", "episodes", "checkpoint_digest"}


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
def running(two_runs, tmp_path):
    """Run b has done one stage and is in the next one, three of nine episodes far."""
    two_runs.resume_run("b")
    two_runs.commit_stage(two_runs.start_attempt("b", 0, "collect", REQUEST), record(0, "collect"))
    two_runs.start_attempt("b", 0, "train", REQUEST)
    folder = tmp_path / "runs/b/cycle_0/train"
    folder.mkdir(parents=True)
    ProgressWriter(folder)(Update(3, 9, "steps", "loss 0.5"))
    with controlled(tmp_path / "runs/b"):
        yield two_runs


@contextmanager
def controlled(folder):
    """Hold the lock of a run's controller."""
    with (folder / ".controller.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_status_names_stage_progress_stages_done_and_budgets(lefleet, running):
    _, out, _ = lefleet("status", "b")
    headline, *table, now, done, budgets = out.splitlines()
    assert headline.startswith("b: running for ")
    assert "collect" not in "".join(table)
    assert now.startswith("Now:        cycle 0 (1 of 3) · train: 3/9 steps (loss 0.5), ")
    assert done == "Done:       collect"
    assert budgets == "Budgets:    0 of 3 cycles"


def test_a_run_that_has_just_begun_says_what_it_does_instead_of_an_empty_table(lefleet, two_runs):
    two_runs.resume_run("b")
    headline, now, _ = lefleet("status", "b")[1].splitlines()
    assert headline.startswith("b: running for ")
    assert now.startswith("Now:        cycle 0 (1 of 3): starting the controller, ")


def test_scripts_read_the_same(lefleet, running):
    running.request_stop("b")
    _, b = json.loads(lefleet("status", "--json")[1])["runs"]
    assert b["now"]["stage"] == "train"
    assert (b["now"]["cycle"], b["now"]["cycles"], b["now"]["attempt"]) == (0, 3, 1)
    assert (b["now"]["progress"]["done"], b["now"]["progress"]["total"]) == (3, 9)
    assert b["now"]["wait"]["kind"] == "stop"
    assert b["budgets"]["cycles"] == {"used": 0, "limit": 3}
    assert b["elapsed_s"] > 0
    assert (b["controlled"], b["interrupted"]) == (True, False)


def test_every_field_for_scripts_is_documented(lefleet, running, pytestconfig):
    running.request_stop("b")
    docs = pytestconfig.rootpath / "docs"
    (about,) = re.findall(
        r"^## status --json$.*?(?=^## )", (docs / "loop.md").read_text(), re.DOTALL | re.MULTILINE
    )
    files = (docs / "stages.md").read_text()
    (b,) = json.loads(lefleet("status", "b", "--json")[1])["runs"]
    for name in {**b, **b["now"]}:
        assert f'"{name}"' in about
    for name in b["now"]["wait"]:
        assert f"`{name}`" in about
    for name in b["now"]["progress"]:
        assert f"`{name}`" in files


def test_a_viewer_names_run_cycle_and_stage(running, tmp_path, capsys):
    Follower(running, tmp_path / "runs/b").poll(ProgressLines())
    assert "\nb · cycle 0 (1 of 3) · train: 3/9 steps (loss 0.5), " in capsys.readouterr().err


def test_a_second_attempt_is_named(lefleet, running):
    attempt = next(one for one in running.attempts("b") if one.state == "running")
    running.end_attempt(attempt, "failed", "no")
    running.start_attempt("b", 0, "train", REQUEST)
    assert "· train (attempt 2): starting the process, " in lefleet("status", "b")[1]


def test_watching_in_lines_is_not_silent_while_nothing_changes(
    running, tmp_path, capsys, monkeypatch
):
    clock = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if clock[0] - began > 21:
            running.set_run_state("b", "finished")

    began = clock[0]
    monkeypatch.setattr(time, "sleep", sleep)
    _watch_in_lines(running, tmp_path / "runs", ["b"])
    lines = [line for line in capsys.readouterr().err.splitlines() if "train: 3/9 steps" in line]
    assert len(lines) == 5


def test_watching_as_json_prints_a_line_for_every_change_but_time(running, tmp_path, capsysbinary):
    workdir, changes = tmp_path / "runs", [Update(6, 9, "steps"), None, None]

    def wait(_seconds):
        """Something happens, twice nothing does, then the run ends."""
        if not changes:
            running.set_run_state("b", "finished")
        elif (update := changes.pop(0)) is not None:
            ProgressWriter(workdir / "b/cycle_0/train")(update)

    _watch_json(running, workdir, "b", wait)
    lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [line["now"] and line["now"]["progress"]["done"] for line in lines] == [3, 6, None]


@pytest.fixture
def interrupted(two_runs, tmp_path):
    """Run b has been running for long, and has no running controller."""
    two_runs.resume_run("b")
    execute(tmp_path / "runs", "UPDATE run SET resumed_at = 5.0 WHERE id = 'b'")


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
    assert f"\nTry it:     lefleet try a --workdir {tmp_path}/runs\n" in out
    assert f"\nMeasure it: lefleet eval --checkpoint a --workdir {tmp_path}/runs --tasks " in out


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
    assert f"\nTry it:     {shown} try a\n" in out
    assert f"\nMeasure it: {shown} eval --checkpoint a --tasks " in out
    assert f"\nServe it:   {shown} serve a\n" in out


def test_without_a_blessed_checkpoint_there_is_nothing_to_serve(lefleet, two_runs):
    two_runs.set_run_state("b", "finished", "done")
    assert "lefleet serve" not in lefleet("resume", "b")[1]


def test_videos_that_were_not_requested_are_not_missing(lefleet, two_runs):
    no_videos = config(name="d", evaluate=EvaluatePlan(videos_per_task=0))
    two_runs.create_run("d", msgspec.to_builtins(no_videos))
    two_runs.set_run_state("d", "finished", "done")
    assert "Videos:     none requested" in lefleet("resume", "d")[1]


def test_a_run_in_another_environment_is_tried_and_filmed_there(lefleet, two_runs, tmp_path):
    plan = EvaluatePlan(env={"type": "libero", "task": "libero_10"})
    two_runs.create_run("e", msgspec.to_builtins(config(name="e", evaluate=plan, device="cuda")))
    two_runs.commit_stage(two_runs.start_attempt("e", 0, "train", REQUEST), record(0, "train"))
    two_runs.record_decision("e", decision(0, "baseline", "c0"))
    two_runs.set_run_state("e", "finished", "done")
    videos = tmp_path / "runs/e/cycle_0/evaluate/videos"
    videos.mkdir(parents=True)
    out = lefleet("resume", "e")[1]
    assert "eval --checkpoint e --env type libero task libero_10 --device cuda --seed " in out
    assert f"Videos:     {videos}\n" in out


def test_watching_ends_with_an_interrupt_and_says_that_the_runs_continue(two_runs, tmp_path):
    two_runs.resume_run("b")
    with Child("status", "--watch", folder=tmp_path) as child:
        child.wait_for(lambda one: any("b: running" in line for line in one.out))
        child.signal(signal.SIGINT)
        assert child.end() == 0
    assert [line for line in child.err if line] == ["Stopped watching; the runs continue."]


@pytest.fixture
def judged(running, tmp_path):
    """Run b is in its second cycle, behind a gate."""
    for stage in ("train", "evaluate"):
        running.commit_stage(running.start_attempt("b", 0, stage, REQUEST), record(0, stage))
    running.record_decision("b", decision(0, "baseline", "c0"))
    for stage in ("collect", "train", "evaluate", "gate"):
        running.commit_stage(running.start_attempt("b", 1, stage, REQUEST), record(1, stage))
    return running


def text_of(parts) -> str:
    screen = Console(width=200, highlight=False, markup=False)
    with screen.capture() as capture:
        for part in parts:
            screen.print(part)
    return capture.get()


def test_the_screen_shows_the_flow_with_what_is_done_what_is_now_and_what_is_next(
    running, tmp_path
):
    shown = text_of(RunScreen(running, tmp_path / "runs").parts("b"))
    assert "Now:        cycle 0 (1 of 3) · train: 3/9 steps (loss 0.5), " in shown
    (flow,) = [line for line in shown.splitlines() if line.startswith("Flow: ")]
    assert re.fullmatch(
        r"Flow:       ✓ propose → ✓ collect \d+ s → ▶ train 33% → ○ evaluate → ○ decide", flow
    )
    assert "Done: " not in shown
    assert "Gate: " not in shown


def test_the_screen_shows_the_evidence_of_the_last_gate_and_how_to_answer(judged, tmp_path):
    drawn = RunScreen(judged, tmp_path / "runs")
    verdict = "Gate:       cycle 1: No clear answer: of 4 pairs, the candidate won 3 and lost 1"
    evidence = "Evidence:   won minus lost: +2; better from "
    shown = text_of(drawn.parts("b"))
    assert verdict in shown
    assert evidence in shown
    judged.approvals.ask(
        "b", "promote", "cycle 1", cycle=1, text="promote it", evidence={}, timeout_s=0.0,
        on_timeout="reject",
    )  # fmt: skip
    judged.set_run_state("b", "waiting", "a person to promote it")
    shown = text_of(drawn.parts("b"))
    assert verdict in shown
    assert "◆ decide" in shown
    workdir = tmp_path / "runs"
    assert f"Say yes:    lefleet approve b --question=1 --workdir {workdir}" in shown


def test_evidence_fits_into_a_line_however_often_a_gate_looked():
    looks = range(1, 101)
    path = EvidencePath(
        metric="success",
        pairs=tuple(looks),
        value=tuple(map(float, looks)),
        better=(100.0,) * 100,
        worse=(-100.0,) * 100,
        value_worse=(),
        low=(0.0,) * 100,
        high=(1.0,) * 100,
        e_value=(1.0,) * 100,
        max_pairs=200,
    )
    assert evidence_text(path) == (
        "won minus lost: … → +93 → +94 → +95 → +96 → +97 → +98 → +99 → +100; better from +100, "
        "worse from -100 (100 of at most 200 pairs)"
    )
    progress = replace(path, metric="progress", better=(1.0,) * 100, value=(0.0, 1.0) * 50)
    worse = replace(progress, value_worse=(0.0,) * 100, worse=(2.0,) * 100)
    assert evidence_text(worse).endswith("better from 10; for worse: 1 of 100 (100 of at most 200 "
                                         "pairs)")  # fmt: skip


def test_in_a_terminal_the_same_is_watched(running, tmp_path):
    with Terminal("status", "b", "--watch", folder=tmp_path) as terminal:
        terminal.wait_for("▶ train 33%", 60)
        terminal.wait_for("Ctrl-C stops watching; the runs continue.", 60)
        terminal.press(CTRL_C)
        assert terminal.end() == 0
    assert "Stopped watching; the runs continue." in terminal.shown


def test_in_a_terminal_the_evidence_of_a_run_that_waits_is_printed(judged, tmp_path):
    judged.set_run_state("b", "stopped", "by lefleet stop")
    with Terminal("status", "b", "--watch", folder=tmp_path) as terminal:
        terminal.wait_for("Evidence:   won minus lost: +2", 60)
        assert terminal.end() == 0
