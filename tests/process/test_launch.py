"""A child keeps to one thread and does not outlive its parent."""

import contextlib
import os
import select
import signal
import subprocess
import sys

import pytest

from lefleet.errors import StageFailed
from lefleet.process import child_environment, exit_words, launch, oom_kills, stop

DEADLINE_S = 60
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def has_ended(pidfd: int) -> bool:
    """Whether the process behind `pidfd` ends before the deadline."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(DEADLINE_S * 1000))


def said_by(code: str, **options) -> str:
    with launch(python(code), stdout=subprocess.PIPE, **options) as child:
        return child.communicate(timeout=DEADLINE_S)[0].decode().strip()


@pytest.mark.parametrize("name", THREADS)
def test_a_child_gets_one_thread(monkeypatch, name):
    monkeypatch.delenv(name, raising=False)
    assert said_by(f"import os; print(os.environ[{name!r}])") == "1"


@pytest.mark.parametrize("name", THREADS)
def test_a_number_of_threads_that_the_user_set_stays(monkeypatch, name):
    monkeypatch.setenv(name, "3")
    assert child_environment()[name] == "3"


def test_the_environment_given_for_one_child_wins(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    said = said_by(
        "import os; print(os.environ['OMP_NUM_THREADS'])", environment={"OMP_NUM_THREADS": "5"}
    )
    assert said == "5"


def test_the_parents_own_environment_does_not_change(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    said_by("pass", environment={"LEFLEET_TEST": "1"})
    assert "OMP_NUM_THREADS" not in os.environ
    assert "LEFLEET_TEST" not in os.environ


def test_a_child_that_inherits_nothing_has_only_what_it_is_given(monkeypatch):
    monkeypatch.setenv("LEFLEET_TEST", "secret")
    code = "print(*sorted(name for name in __import__('os').environ if name != 'LC_CTYPE'))"
    assert said_by(code, environment={"GIVEN": "1"}, inherits=False) == "GIVEN"


def test_a_child_has_nothing_to_read_unless_it_is_given_something():
    assert said_by("import sys; print(repr(sys.stdin.read()))") == "''"


def test_a_child_works_where_it_is_told_to(tmp_path):
    assert said_by("import os; print(os.getcwd())", cwd=tmp_path) == str(tmp_path.resolve())


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_child_dies_when_its_parent_is_killed():
    parent_code = (
        "import signal, sys\n"
        "from lefleet.process import launch\n"
        "child = launch((sys.executable, '-c', 'import signal; signal.pause()'))\n"
        "print(child.pid, flush=True)\n"
        "signal.pause()\n"
    )
    parent = subprocess.Popen(python(parent_code), stdout=subprocess.PIPE)
    try:
        pidfd = os.pidfd_open(int(parent.stdout.readline()))
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    try:
        assert has_ended(pidfd)
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)


def test_a_program_that_is_not_there_is_a_failed_stage_that_names_it():
    with pytest.raises(StageFailed, match=r"Could not start no-such-program: No such file"):
        launch(("no-such-program",))


def test_stop_ends_a_child_that_listens():
    child = launch(python("import signal; signal.pause()"))
    stop(child, grace_s=DEADLINE_S)
    assert child.returncode == -signal.SIGTERM


def test_stop_kills_a_child_that_does_not_listen():
    deaf = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('deaf', flush=True)\n"
        "while True: signal.pause()\n"
    )
    child = launch(python(deaf), stdout=subprocess.PIPE)
    with child:
        assert child.stdout.readline() == b"deaf\n"
        stop(child, grace_s=0.05)
    assert child.returncode == -signal.SIGKILL


def test_stop_leaves_the_exit_code_of_a_child_that_has_ended():
    child = launch(python("raise SystemExit(7)"))
    child.wait(DEADLINE_S)
    stop(child)
    assert child.returncode == 7


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-signal.SIGKILL, "was killed by SIGKILL"),
        (-signal.SIGSEGV, "was killed by SIGSEGV"),
        (-99, "was killed by signal 99"),
    ],
)
def test_an_exit_has_its_code_or_the_name_of_its_signal(code, words):
    assert exit_words(code, oom_kills()) == words


@pytest.mark.parametrize(
    ("code", "hint"),
    [(-signal.SIGKILL, " (out of memory?)"), (-signal.SIGTERM, "")],
)
def test_a_kill_while_the_kernel_freed_memory_is_asked_about(tmp_path, monkeypatch, code, hint):
    events, machine = tmp_path / "memory.events", tmp_path / "vmstat"
    monkeypatch.setattr(
        sys.modules[launch.__module__], "_oom_counters", lambda: (machine, events, tmp_path / "no")
    )
    machine.write_text("pgfault 7\noom_kill 1\n")
    events.write_text("low 0\noom 3\noom_kill 2\noom_group_kill 9\n")
    before = oom_kills()
    assert before == 3
    assert "memory" not in exit_words(code, before)
    events.write_text("low 0\noom 4\noom_kill 3\n")
    assert exit_words(code, before).endswith(f"{signal.Signals(-code).name}{hint}")
