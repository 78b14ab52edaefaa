"""Runs are found, resumed and stopped, also while a controller exits."""

import gc
from contextlib import ExitStack

import msgspec
import pytest

from lefleet.errors import BadInput, StageFailed
from lefleet.ledger import open_ledger
from lefleet.loop import runs as module
from lefleet.loop.runs import (
    change_config,
    is_controlled,
    last_log_line,
    resume,
    start_controller,
    stop,
)
from lefleet.process import launch
from tests.devices import needs_no_gpu
from tests.loop.states import config
from tests.permissive import EVERYTHING

pytestmark = pytest.mark.usefixtures("any_program")


class Controlled:
    """A run whose controller is this test."""

    of = config()

    def __init__(self, workdir) -> None:
        self.workdir = workdir
        self.folder = workdir / "r"
        self.folder.mkdir()
        self.ledger = open_ledger(workdir)
        self.ledger.create_run("r", msgspec.to_builtins(self.of))
        self.lock = ExitStack()
        assert self.lock.enter_context(self.ledger.controllers.hold("r"))
        self.started = 0

    def leave(self) -> None:
        self.lock.close()

    def start(self, *_: object) -> None:
        self.started += 1

    def row(self):
        return self.ledger.run("r")


@pytest.fixture
def run(workdir, monkeypatch):
    made = Controlled(workdir)
    monkeypatch.setattr(module, "start_controller", made.start)
    yield made
    made.leave()
    made.ledger.close()


@pytest.fixture
def on_wait(monkeypatch):
    """What happens at each wait, in this order."""
    todo = []
    monkeypatch.setattr(module.time, "sleep", lambda _: todo.pop(0)())
    return todo


@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_a_run_whose_controller_is_exiting_is_resumed_once_it_has_exited(run, on_wait, state):
    run.ledger.set_run_state("r", state)
    on_wait.append(run.leave)
    assert resume(run.ledger, run.workdir, run.row()) == "resumed"
    assert (on_wait, run.started, run.row().state) == ([], 1, "running")


def test_a_run_with_a_running_controller_is_attached_to(run):
    assert resume(run.ledger, run.workdir, run.row()) == "attached"
    assert run.started == 0


def test_a_controller_that_does_not_exit_is_named(run, monkeypatch):
    monkeypatch.setattr(module, "_EXIT_WAIT_S", 0.0)
    run.ledger.set_run_state("r", "stopped")
    with pytest.raises(StageFailed, match="controller of r does not exit"):
        resume(run.ledger, run.workdir, run.row())


def test_a_finished_run_gets_the_files_that_it_lacks(run):
    run.leave()
    run.ledger.set_run_state("r", "finished", "done")
    assert resume(run.ledger, run.workdir, run.row()) == "finished"
    assert (run.folder / "summary.json").exists()
    assert "run_finished" in (run.folder / "events.jsonl").read_text()
    assert run.started == 0


def test_stopping_waits_until_the_controller_has_exited(run, on_wait):
    on_wait += [lambda: run.ledger.set_run_state("r", "stopped", "asked"), run.leave]
    assert stop(run.ledger, run.workdir, run.row()) == "stopped"
    assert on_wait == []
    assert not is_controlled(run.ledger, "r")


def test_a_run_without_a_controller_is_stopped_with_all_its_files(run):
    run.leave()
    assert stop(run.ledger, run.workdir, run.row()) == "stopped"
    assert (run.folder / "summary.json").exists()
    assert "run_stopped" in (run.folder / "events.jsonl").read_text()


def test_the_last_log_line_is_that_of_the_newest_controller(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "launch", lambda *_, **__: launch(("true",)))
    monkeypatch.setattr(module, "launch_rules", lambda _: EVERYTHING)
    log = tmp_path / "r" / "controller.log"
    assert last_log_line(tmp_path / "r") == ""
    start_controller(tmp_path, "r")
    with log.open("a") as file:
        file.write("Traceback\nthe disk was full\n--- importing torch\n\n")
    assert last_log_line(tmp_path / "r") == "the disk was full"
    start_controller(tmp_path, "r")
    assert last_log_line(tmp_path / "r") == ""
    assert "the disk was full" in log.read_text()


def test_a_controller_that_outlives_its_starter_is_no_leak(tmp_path, recwarn):
    gc.collect()
    recwarn.clear()  # What other tests left.
    start_controller(tmp_path, "unknown")
    gc.collect()
    assert [one.message for one in recwarn if one.category is ResourceWarning] == []


@needs_no_gpu
def test_a_run_whose_device_is_gone_is_not_resumed_and_stays_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(Controlled, "of", config(device="cuda"))
    made = Controlled(tmp_path)
    monkeypatch.setattr(module, "start_controller", made.start)
    made.leave()
    made.ledger.set_run_state("r", "stopped")
    with pytest.raises(BadInput, match="device: cuda cannot be used"):
        resume(made.ledger, made.workdir, made.row())
    with pytest.raises(BadInput, match="device: cuda cannot be used"):
        change_config(made.ledger, made.workdir, made.row(), ["--budgets.cycles=9"])
    assert (made.row().state, made.row().budgets, made.started) == ("stopped", None, 0)
    made.leave()
    made.ledger.close()


def test_a_run_with_a_controller_must_be_stopped_first(run):
    with pytest.raises(BadInput, match=r"r is running with its config\..*lefleet stop r"):
        change_config(run.ledger, run.workdir, run.row(), ("--budgets.cycles=9",))
    assert run.row().budgets is None
    assert change_config(run.ledger, run.workdir, run.row(), ("--budgets.cycles=3",)) == "attached"
