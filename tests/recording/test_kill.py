"""A recording process is killed; every episode that it had finished is there."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lefleet.recording import outcomes, read_provenance, recover
from tests.recording import frames
from tests.recording.recorder import outcome_of


class Recorder:
    """The program that records in forks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.recording.recorder"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def begin(self, root: Path, mode: str, *, episodes: int = 0, kill_at: int = 0) -> int:
        """Start a fork; its pid."""
        job = {"root": str(root), "mode": mode, "episodes": episodes, "kill_at": kill_at}
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        return self._line()["pid"]

    def end(self) -> tuple[int, int, int]:
        """Wait for the fork: how many episodes it saved, lines of the last one, exit code."""
        saved = lines = 0
        while "exit" not in (said := self._line()):
            saved, lines = said["saved"], said["lines"]
        return saved, lines, said["exit"]

    def close(self) -> None:
        self._process.communicate(timeout=30)
        assert self._process.returncode == 0

    def _line(self) -> dict:
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def recorder():
    made = Recorder()
    yield made
    made.close()


def verify(root: Path, saved: int, mode: str) -> int:
    """Recover, and check all that is on disk; how many episodes there are."""
    finished = recover(root)
    if finished is None and saved == 0:  # It was killed before the recording began.
        return 0
    assert finished in (saved, saved + 1)
    if finished:  # LeRobot loads no dataset without episodes, but continues one.
        frames.check(root, finished, mode)
    leftovers = {path.name for path in root.iterdir()} - {"data", "meta", "videos"}
    assert leftovers <= {".recording.lock", "provenance.jsonl", "outcomes.jsonl"}
    for episode in range(finished):
        rows = read_provenance(root, episode)
        assert [row.frame_index for row in rows] == list(range(frames.length(episode)))
        assert {row.session_id for row in rows} == {f"session {episode}"}
    assert not read_provenance(root, finished)
    found = outcomes(root)
    assert [found[one].note for one in found] == [outcome_of(one).note for one in range(finished)]
    return finished


def sweep(recorder: Recorder, folder: Path, mode: str, points: int) -> set[int]:
    """Kill the process at this many lines of code of saving an episode; what was finished then."""
    recorder.begin(folder / "whole", mode, episodes=2)
    saved, lines, _ = recorder.end()
    assert saved == 2
    found = set()
    for point in range(1, points + 1):
        root = folder / f"killed_{point}"
        recorder.begin(root, mode, episodes=2, kill_at=max(1, lines * point // points))
        saved, _, code = recorder.end()
        if code == 0:  # Another interleaving of threads took fewer lines.
            continue
        assert code == -signal.SIGKILL
        found.add(verify(root, saved, mode))
    return found


@pytest.mark.parametrize(("mode", "points"), [("state", 8), ("streaming", 6), ("staged", 4)])
def test_a_kill_while_an_episode_is_saved_loses_at_most_that_one(recorder, tmp_path, mode, points):
    assert sweep(recorder, tmp_path, mode, points) == {1, 2}


def kill_at_random_moments(recorder: Recorder, folder: Path, kills: int) -> int:
    """How many episodes were finished in all."""
    seed = time.time_ns()
    print("seed", seed)
    dice = random.Random(seed)
    finished = 0
    for number in range(kills):
        mode = dice.choice(list(frames.MODES))
        pid = recorder.begin(folder / f"{number}", mode)
        time.sleep(dice.uniform(0.2, 1.2))
        os.kill(pid, signal.SIGKILL)
        saved, _, code = recorder.end()
        assert code == -signal.SIGKILL
        finished += verify(folder / f"{number}", saved, mode)
    return finished


def test_kills_at_random_moments_lose_no_finished_episode(recorder, tmp_path):
    assert kill_at_random_moments(recorder, tmp_path, kills=4) > 0


@pytest.mark.parametrize("finished", [0, 1])
def test_a_killed_recording_is_continued(recorder, tmp_path, finished):
    recorder.begin(tmp_path / "a", "streaming", episodes=finished + 1, kill_at=200)
    saved, _, code = recorder.end()
    assert (saved, code) == (finished, -signal.SIGKILL)
    dataset = frames.resume(tmp_path / "a", "streaming")
    for episode in range(finished, 3):
        frames.add_frames(dataset, episode, "streaming")
        dataset.save_episode()
    dataset.finalize()
    frames.check(tmp_path / "a", 3, "streaming")


@pytest.mark.chaos
@pytest.mark.parametrize("mode", list(frames.MODES))
def test_a_kill_at_many_more_lines_of_saving(recorder, tmp_path, mode):
    assert sweep(recorder, tmp_path, mode, 150) == {1, 2}


@pytest.mark.chaos
def test_hundreds_of_kills_at_random_moments(recorder, tmp_path):
    assert kill_at_random_moments(recorder, tmp_path, kills=200) > 200
