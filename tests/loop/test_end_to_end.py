"""Whole runs as a user has them: real commands, real processes, real signals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
import yaml

from lefleet.ledger import open_ledger
from lefleet.process import processes_marked
from lefleet.records import RunConfig
from lefleet.stages.run import STAGE_MARK
from tests.ledger.ledgers import has_controller
from tests.loop.fuzz import _processes, assert_journal_equals_table, tiny_config
from tests.loop.states import config


def config_file(folder: Path, **changes) -> Path:
    raw = json.loads(msgspec.json.encode(tiny_config("tiny")))
    raw["ladder"][0] |= {"num_workers": 0} | changes.pop("rung", {})
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(raw | changes))
    return path


ONE_STAGE = {"budgets": {"cycles": 1, "collected_episodes": 1}}
"""Ends a run after its first stage, for tests that need no training."""
WITHOUT_EVALUATION = {
    "evaluate": {"episodes_per_task": 2, "videos_per_task": 0},
    "budgets": {"cycles": 1, "evaluation_episodes": 1},
}
"""Ends a run after its training: two episodes are more than its budget."""


def config_of(folder: Path, config: RunConfig) -> Path:
    """A config file with these values."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(json.loads(msgspec.json.encode(config))))
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "lefleet", *map(str, arguments)]


def start(*arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command(*arguments), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def run(*arguments: object, prefix: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    argv = [*prefix, *command(*arguments)]
    return subprocess.run(argv, text=True, capture_output=True, check=False)


def wait_for(condition, what: str, seconds: float = 900) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.05)


def controllers(workdir: Path) -> list[int]:
    return [
        one.pid for one in _processes() if one.argv[3:6] == ("controller", "exec", str(workdir))
    ]


def stage_processes(workdir: Path) -> list[int]:
    marked = processes_marked(STAGE_MARK)
    return [pid for pid, folder in marked.items() if folder.startswith(f"{workdir}/tiny/")]


def test_a_run_with_two_viewers_and_a_suspended_controller(tmp_path):
    workdir, config = tmp_path / "runs", config_file(tmp_path)
    first = start("run", "-c", config, "--workdir", workdir)
    wait_for(lambda: stage_processes(workdir), "the first stage")
    second = start("run", "-c", config, "--workdir", workdir)
    (controller,) = controllers(workdir)
    os.kill(controller, signal.SIGSTOP)
    collected = workdir / "tiny" / "cycle_0" / "collect" / "record.json"
    wait_for(collected.exists, "a stage that needs no controller")
    os.kill(controller, signal.SIGCONT)
    said, also_said = first.communicate()[0], second.communicate()[0]
    assert (first.returncode, second.returncode) == (0, 0), said + also_said
    assert "Run tiny started." in said
    assert "Run tiny is already running; attaching." in also_said
    assert "cycle 0: evaluate done" in said
    wait_for(lambda: not has_controller(workdir / "tiny"), "the controller's end")
    ledger = open_ledger(workdir)
    attempts = ledger.attempts("tiny")
    assert [(one.stage, one.attempt, one.state) for one in attempts] == [
        ("collect", 1, "committed"),
        ("train", 1, "committed"),
        ("evaluate", 1, "committed"),
    ]
    assert_journal_equals_table(ledger, "tiny", workdir / "tiny")
    (status,) = json.loads(run("status", "--json", "--workdir", workdir).stdout)["runs"]
    assert status["state"] == "finished"
    assert status["cycles"][0]["episodes"] == 1
    lineage = ledger.lineage(status["cycles"][0]["checkpoint_digest"])
    assert lineage["datasets"][0]["episodes"] == [0]
    assert lineage["evaluation_episodes"] == 1
    assert (workdir / "tiny" / "success.png").stat().st_size > 1000


@pytest.mark.chaos
def test_a_controller_that_is_suspended_for_a_minute_does_no_harm(tmp_path):
    """Longer than a stage may be silent: the time of the suspension is not counted."""
    workdir, config = tmp_path / "runs", config_file(tmp_path, hang_after_s=30.0)
    viewer = start("run", "-c", config, "--workdir", workdir)
    wait_for(lambda: stage_processes(workdir), "the first stage")
    (controller,) = controllers(workdir)
    os.kill(controller, signal.SIGSTOP)
    time.sleep(60.0)
    os.kill(controller, signal.SIGCONT)
    said = viewer.communicate()[0]
    assert viewer.returncode == 0, said
    attempts = open_ledger(workdir).attempts("tiny")
    assert [one.state for one in attempts] == ["committed"] * 3


def test_a_run_is_stopped_and_resumed(tmp_path):
    workdir, config = tmp_path / "runs", config_file(tmp_path, **ONE_STAGE)
    viewer = start("run", "-c", config, "--workdir", workdir)
    wait_for(lambda: stage_processes(workdir), "the first stage")
    stopped = run("stop", "tiny", "--workdir", workdir)
    assert stopped.returncode == 0
    assert "lefleet resume tiny" in stopped.stderr
    viewer.communicate()
    wait_for(lambda: not has_controller(workdir / "tiny"), "the controller's end")
    assert stage_processes(workdir) == []
    assert open_ledger(workdir).run("tiny").state == "stopped"
    resumed = run("resume", "tiny", "--workdir", workdir)
    assert resumed.returncode == 0, resumed.stderr
    assert open_ledger(workdir).run("tiny").state == "finished"


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can only be mounted by root")
def test_a_full_disk_is_a_clear_error_and_nothing_committed_is_lost(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        config = config_file(tmp_path, max_attempts=1, **WITHOUT_EVALUATION)
        failed = run("run", "-c", config, "--workdir", small)
        assert failed.returncode == 1
        assert "No space left" in failed.stderr or "disk is full" in failed.stderr, failed.stderr
        subprocess.run(["mount", "-o", "remount,size=200m", str(small)], check=True)
        assert run("resume", "tiny", "--workdir", small).returncode == 0
        assert open_ledger(small).run("tiny").state == "finished"
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_an_unwritable_folder_is_a_clear_error(tmp_path):
    workdir, config = tmp_path / "runs", config_file(tmp_path, max_attempts=1, **ONE_STAGE)
    closed = workdir / "tiny" / "cycle_0"
    closed.mkdir(parents=True)
    closed.chmod(0o500)
    failed = run("run", "-c", config, "--workdir", workdir, prefix=heeding_permissions())
    assert failed.returncode == 1
    assert f"{closed}/collect cannot be used: Permission denied" in failed.stderr
    assert "lefleet resume tiny" in failed.stderr
    assert open_ledger(workdir).run("tiny").state == "failed"


def test_a_work_folder_that_may_not_be_written_is_a_clear_error(tmp_path):
    config, workdir = config_file(tmp_path), tmp_path / "closed"
    workdir.mkdir(mode=0o500)
    refused = run("run", "-c", config, "--workdir", workdir, prefix=heeding_permissions())
    assert refused.returncode == 1
    assert f"The ledger in {workdir} cannot be used: Permission denied." in refused.stderr
    assert list(workdir.iterdir()) == []


def heeding_permissions() -> tuple[str, ...]:
    """In front of a command: root, too, may then write only where permissions allow it."""
    drop = "-dac_override,-dac_read_search"
    return ("setpriv", f"--bounding-set={drop}") if os.geteuid() == 0 else ()


def test_a_config_that_changed_is_not_the_same_run(tmp_path):
    workdir = tmp_path / "runs"
    ledger = open_ledger(workdir)
    ledger.create_run("tiny", msgspec.to_builtins(config(name="tiny")))
    refused = run("run", "-c", config_file(tmp_path), "--workdir", workdir)
    assert refused.returncode == 2
    assert "another config" in refused.stderr
