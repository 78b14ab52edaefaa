"""Processes found by a mark in their environment."""

import os
import subprocess
from pathlib import Path

import pytest

from lefleet.process import launch, processes_marked, stop
from lefleet.process.liveness import has_ended, identity_of, with_descendants

NAME = "LEFLEET_TEST_MARK"


@pytest.fixture
def started():
    """Starts programs that are ended with the test."""
    running = []

    def start(*argv: str, mark: str, **options) -> subprocess.Popen:
        running.append(launch(argv, environment={NAME: mark}, **options))
        return running[-1]

    yield start
    for process in running:
        stop(process)
        if process.stdout:
            process.stdout.close()


def found(mark: Path) -> list[int]:
    return [pid for pid, value in processes_marked(NAME).items() if value == str(mark)]


def test_a_marked_process_is_found(started, tmp_path):
    process = started("sleep", "600", mark=str(tmp_path))
    assert found(tmp_path) == [process.pid]


def test_a_detached_process_is_found(started, tmp_path):
    process = started("sleep", "600", mark=str(tmp_path), detached=True)
    assert found(tmp_path) == [process.pid]


def test_a_child_of_a_marked_process_is_found(started, tmp_path):
    shell = started(
        "sh", "-c", "sleep 600 & echo $!; wait", mark=str(tmp_path), stdout=subprocess.PIPE
    )
    child = int(shell.stdout.readline())
    try:
        assert set(found(tmp_path)) == {shell.pid, child}
    finally:
        os.kill(child, 9)


def test_a_child_without_the_mark_is_found_as_a_descendant_and_known_after_its_parent(
    started, tmp_path
):
    shell = started(
        "sh", "-c", "env -i sleep 600 & echo $!; wait", mark=str(tmp_path), stdout=subprocess.PIPE
    )
    child = int(shell.stdout.readline())
    try:
        assert with_descendants([shell.pid, 2**22]) == {shell.pid, child}
        name = identity_of(child)
        os.kill(shell.pid, 9)
        shell.wait()
        assert not has_ended(name)
    finally:
        os.kill(child, 9)


def test_a_longer_value_is_another_mark(started, tmp_path):
    started("sleep", "600", mark=f"{tmp_path}/cycle_10")
    assert found(tmp_path / "cycle_1") == []


def test_a_process_that_has_ended_is_not_found_before_its_parent_has_waited_for_it(
    started, tmp_path
):
    process = started("true", mark=str(tmp_path), stdout=subprocess.PIPE)
    process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert found(tmp_path) == []
