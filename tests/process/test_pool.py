"""Work goes to a few processes, and every answer comes back."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from lefleet.errors import ChildKilled, StageFailed
from lefleet.process import Pool

WORKER = """
import os, sys
for line in sys.stdin:
    word = line.strip()
    if word == "die":
        print("out of sugar", file=sys.stderr)
        sys.exit(3)
    if word == "shout":
        print("a" * 300_000)
    if word == "killed":
        os.kill(os.getpid(), 9)
    if word == "die-halfway":
        print("half an answer", end="")
        sys.exit(4)
    for number in range(int(word) if word.isdigit() else 1):
        print(word, number, os.getpid())
    print(".", flush=True)
"""


@pytest.fixture
def worker(tmp_path: Path) -> tuple[str, str]:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    return (sys.executable, str(script))


def words(answers) -> Counter:
    """How often each piece of work was answered."""
    return Counter(answer.split()[0].decode() for answer in answers)


def pids(answers) -> set[int]:
    return {int(answer.split()[2]) for answer in answers}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_answers_to_all_work_arrive(worker, tmp_path, size):
    with Pool(worker, size, tmp_path / "log") as pool:
        answers = list(pool.run([b"0", b"1", b"2", b"3", b"4", b"5", b"6"]))
    assert words(answers) == Counter({str(number): number for number in range(1, 7)})


def test_work_is_spread_over_all_workers(worker, tmp_path):
    with Pool(worker, 3, tmp_path / "log") as pool:
        answers = list(pool.run([b"a", b"b", b"c", b"d"]))
    assert len(pids(answers)) == 3


def test_no_more_workers_start_than_there_is_work(worker, tmp_path):
    log = tmp_path / "log"
    noisy = (sys.executable, "-c", f"import sys; sys.stderr.write('here\\n'){WORKER}")
    with Pool(noisy, 3, log) as pool:
        list(pool.run([b"a"]))
    assert log.read_text() == "here\n"
    with Pool(worker, 3, log) as pool:
        assert list(pool.run([])) == []


def test_work_is_taken_one_piece_at_a_time(worker, tmp_path):
    taken = []

    def work():
        for word in (b"a", b"b", b"c", b"d"):
            taken.append(word)
            yield word

    with Pool(worker, 1, tmp_path / "log") as pool:
        next(pool.run(work()))
        assert taken == [b"a"]


def test_a_pool_can_be_used_again_with_the_same_workers(worker, tmp_path):
    with Pool(worker, 2, tmp_path / "log") as pool:
        first = list(pool.run([b"a", b"b"]))
        second = list(pool.run([b"c", b"d", b"e"]))
    assert words(first) == Counter("ab")
    assert words(second) == Counter("cde")
    assert pids(second) == pids(first)


def test_a_second_use_with_more_work_starts_the_workers_that_are_missing(worker, tmp_path):
    with Pool(worker, 2, tmp_path / "log") as pool:
        first = list(pool.run([b"a"]))
        second = list(pool.run([b"b", b"c"]))
    assert pids(first) < pids(second)


def test_an_answer_larger_than_a_pipe_arrives_whole(worker, tmp_path):
    with Pool(worker, 1, tmp_path / "log") as pool:
        answers = list(pool.run([b"shout"]))
    assert answers[0] == b"a" * 300_000


def test_workers_are_gone_when_the_pool_is_left(worker, tmp_path):
    with Pool(worker, 2, tmp_path / "log") as pool:
        started = pids(list(pool.run([b"a", b"b"])))
    assert len(started) == 2
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_workers_are_gone_when_the_user_of_the_pool_fails(worker, tmp_path):
    def use() -> None:
        with Pool(worker, 1, tmp_path / "log") as pool:
            started.extend(pids(pool.run([b"a"])))
            raise KeyError("something else")

    started: list[int] = []
    with pytest.raises(KeyError):
        use()
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_a_worker_that_dies_fails_the_stage_with_its_last_line_and_its_log(worker, tmp_path):
    log = tmp_path / "workers.log"
    with (
        Pool(worker, 2, log) as pool,
        pytest.raises(StageFailed, match=r"exited with code 3: out of sugar\.") as caught,
    ):
        list(pool.run([b"a", b"die", b"b"]))
    assert str(log) in str(caught.value)


def test_a_worker_that_dies_in_the_middle_of_an_answer_fails_the_stage(worker, tmp_path):
    with Pool(worker, 1, tmp_path / "log") as pool, pytest.raises(StageFailed, match="code 4"):
        list(pool.run([b"die-halfway"]))


def test_a_worker_that_printed_nothing_is_reported_as_such(tmp_path):
    silent = (sys.executable, "-c", "raise SystemExit(5)")
    with (
        Pool(silent, 1, tmp_path / "log") as pool,
        pytest.raises(StageFailed, match="code 5: it printed nothing"),
    ):
        list(pool.run([b"a"]))


def test_a_killed_worker_is_reported_with_the_signal_and_nothing_of_an_earlier_failure(
    worker, tmp_path
):
    log = tmp_path / "log"
    log.write_text("lefleet.errors.StageFailed: A worker exited with code 3: out of sugar.\n")
    with Pool(worker, 1, log) as pool, pytest.raises(ChildKilled) as caught:
        list(pool.run([b"killed"]))
    assert caught.value.problem == "A worker was killed by SIGKILL."


def test_what_an_earlier_pool_left_in_the_log_is_not_taken_for_the_reason(tmp_path):
    (tmp_path / "log").write_text("an earlier reason\n")
    silent = (sys.executable, "-c", "raise SystemExit(5)")
    with (
        Pool(silent, 1, tmp_path / "log") as pool,
        pytest.raises(StageFailed, match="code 5: it printed nothing"),
    ):
        list(pool.run([b"a"]))


def test_the_log_of_an_earlier_pool_is_kept(worker, tmp_path):
    log = tmp_path / "log"
    log.write_text("earlier\n")
    with Pool(worker, 1, log) as pool, pytest.raises(StageFailed):
        list(pool.run([b"die"]))
    assert log.read_text() == "earlier\nout of sugar\n"
