"""Why a running stage must end."""

import pytest

from lefleet.ledger import open_ledger
from lefleet.loop import watch as module
from lefleet.loop.watch import Watch
from lefleet.records import Budgets
from tests.loop.states import config, state


class Clock:
    """A clock that moves when it is told to."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Makes a watch over a stage; `pass_time` moves its clock in steps and asks at each."""
    clock, ledger = Clock(), open_ledger(tmp_path)
    ledger.create_run("r", {})
    monkeypatch.setattr(module, "time", clock)

    def start(wall_s: float = 0.0, device_seconds: float = 0.0, **changes):
        now = state(of=config(hang_after_s=10.0, **changes), device_seconds=device_seconds)
        watch = Watch(ledger, "r", tmp_path, now, lambda: wall_s)

        def pass_time(*steps: float):
            answers = []
            for seconds in steps:
                clock.now += seconds
                answers.append(watch.must_end())
            return answers[-1]

        return pass_time

    yield start, ledger
    ledger.close()


def test_a_stage_that_may_go_on_does(watched):
    start, _ = watched
    assert start()(1.0) is None


def test_a_request_to_stop_ends_it(watched):
    start, ledger = watched
    ledger.request_stop("r")
    assert start()(1.0) == ("stop", "a person asked for it")


def test_the_ledger_is_not_asked_all_the_time(watched):
    start, ledger = watched
    ledger.request_stop("r")
    pass_time = start()
    assert pass_time(0.1) is None
    assert pass_time(0.5).kind == "stop"


def test_wall_time_ends_it(watched):
    start, _ = watched
    pass_time = start(wall_s=3600.0, budgets=Budgets(wall_hours=1.0))
    assert pass_time(1.0).kind == "budget"


def test_its_own_running_time_counts(watched):
    start, _ = watched
    pass_time = start(device_seconds=3590.0, budgets=Budgets(device_hours=1.0))
    assert pass_time(4.0, 4.0) is None
    assert pass_time(4.0).kind == "budget"


def test_a_stage_without_a_sign_of_life_hangs(watched):
    start, _ = watched
    pass_time = start()
    assert pass_time(1.0, 4.0, 4.0) is None
    assert pass_time(4.0) == ("hang", "no sign of life for 10 s")


@pytest.mark.parametrize("name", ["progress.json", "log.txt", "attempts.jsonl", "episodes.jsonl"])
def test_a_file_that_changes_is_a_sign_of_life(watched, tmp_path, name):
    start, _ = watched
    pass_time = start()
    pass_time(1.0, 4.0, 4.0)
    (tmp_path / name).write_text("alive")
    assert pass_time(4.0, 4.0, 4.0) is None
    assert pass_time(4.0).kind == "hang"


def test_a_long_gap_between_two_questions_is_no_quiet_time(watched):
    start, _ = watched
    pass_time = start()
    assert pass_time(1.0, 3600.0, 3600.0) is None
