"""A fork runs a program as a new process would: nothing that others rely on differs."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lefleet.process import fork, is_held, processes_marked

HOST = """
import fcntl, os, signal, subprocess, sys, threading, types
from lefleet.process import allow_forks, child_environment, fork, launch

fork._PROGRAMS["program"] = "program"
fork.inherited = "seen only by forks"
ARGV = (sys.executable, "-m", "program", "first", "second word")
os.environ.update(child_environment(), fork_test="same")

def start(*argv, **options):
    options.setdefault("stdout", subprocess.PIPE)
    return launch(argv or ARGV, **options)
"""
PROGRAM = """
import atexit, os, signal, subprocess, sys, threading
from lefleet.process import fork
is_fork = hasattr(fork, "inherited")
def main():
    {body}
if __name__ == "__main__":
    sys.exit(main())
"""
DEADLINE_S = 60


@pytest.fixture
def host(tmp_path):
    """Starts a process of ours whose children run `body`, and that does `code`."""
    running = []

    def start(body: str, code: str, *, allow: bool = True) -> subprocess.Popen:
        (tmp_path / "program.py").write_text(PROGRAM.format(body=body.replace("\n", "\n    ")))
        path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        allowed = "allow_forks()\n" if allow else ""
        process = subprocess.Popen(
            [sys.executable, "-c", HOST + allowed + code],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        with process:
            pass


@pytest.fixture
def said(host):
    """What the children, and the process that forks them, print."""

    def run(body: str, code: str, **options) -> list[str]:
        process = host(body, code, **options)
        out, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, err
        return out.splitlines()

    return run


TELL = "print(start().communicate()[0].decode(), end='')"


def test_a_known_program_runs_in_a_fork_with_its_arguments(said):
    body = "print(is_fork, sys.argv[1:], sys.orig_argv[1:], __name__, sep='; ')"
    arguments = "['first', 'second word']; ['-m', 'program', 'first', 'second word']; program"
    assert said(body, TELL) == [f"True; {arguments}"]


@pytest.mark.parametrize(
    "code",
    [
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "del fork._PROGRAMS['program']",
        "fork._set_memory_map = lambda wanted: os.stat('/nowhere')",
        "os.environ['OMP_NUM_THREADS'] = '2'; del os.environ['MKL_NUM_THREADS']",
    ],
    ids=["threads", "unknown program", "no kernel support", "not a child of ours"],
)
def test_where_a_fork_is_not_safe_a_new_program_is_started(said, code):
    assert said("print(is_fork)", f"{code}\n{TELL}") == ["False"]


def test_a_process_that_did_not_allow_it_is_not_forked(said):
    assert said("print(is_fork)", TELL, allow=False) == ["False"]


def test_a_child_that_must_be_a_new_program_is_one(said):
    code = "print(start(may_fork=False).communicate()[0].decode(), end='')"
    assert said("print(is_fork)", code) == ["False"]


def test_a_variable_that_a_library_may_have_read_already_needs_a_new_program(said):
    body = "print(is_fork, os.environ['fork_test'], os.environ.get('LEFLEET_X'))"
    ways = "for more in ({'LEFLEET_X': '1'}, {'fork_test': 'same'}, {'fork_test': 'other'}):\n"
    code = f"{ways}    print(start(environment=more).communicate()[0].decode(), end='')"
    assert said(body, code) == ["True same 1", "True same None", "False other None"]


def test_threads_are_named_as_the_obstacle(monkeypatch):
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert "threads beside its main one" in fork.obstacle()
    finally:
        done.set()
        thread.join()
    monkeypatch.setattr(fork, "_LIBC", None)
    assert fork.obstacle() == "this is not Linux"


def test_proc_shows_the_command_line_and_the_mark_of_a_fork(host, tmp_path):
    mark = f"{tmp_path}/{'long/' * 900}stage"
    code = f"start(environment={{'LEFLEET_TEST': {mark!r}}}, stdout=None, stdin=None).wait()"
    process = host("print(os.getpid(), flush=True); signal.pause()", code)
    pid = int(process.stdout.readline())
    assert processes_marked("LEFLEET_TEST")[pid] == mark
    shown = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    assert shown == [sys.executable, "-m", "program", "first", "second word", ""]


def test_a_program_that_a_fork_starts_has_its_mark(said):
    body = "subprocess.run(['sh', '-c', 'echo $LEFLEET_TEST $fork_test'])"
    code = "print(start(environment={'LEFLEET_TEST': 'here'}).communicate()[0].decode())"
    assert said(body, code)[0] == "here same"


def test_a_fork_holds_no_lock_and_no_pipe_of_its_parent(host, tmp_path):
    lock = tmp_path / "lock"
    code = (
        f"fcntl.flock(os.open({str(lock)!r}, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)\n"
        "child = start(stdout=None, stdin=subprocess.PIPE, detached=True)\n"
        "sys.stdin.readline()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    body = "print(os.getpid(), os.getsid(0), flush=True); sys.stdin.read(); print('ends')"
    process = host(body, code)
    pid, session = process.stdout.readline().split()
    assert pid == session, "a detached fork leads a session"
    assert is_held(lock)
    process.stdin.write("\n")
    process.stdin.flush()
    process.wait(DEADLINE_S)
    # Its stdin ends only when nobody else has the other end, and then it ends.
    assert process.stdout.read() == "ends\n"
    assert not is_held(lock)


def test_a_fork_dies_with_its_parent(host):
    code = "start(stdout=None, stdin=None).wait()"
    process = host("print(os.getpid(), flush=True); signal.pause()", code)
    process.stdout.readline()
    process.kill()
    # Nobody else has the pipe: it ends when the fork has ended.
    assert process.stdout.read() == ""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return None", 0),
        ("return 3", 3),
        ("sys.exit(4)", 4),
        ("sys.exit('in words')", 1),
        ("raise ValueError('broken')", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("signal.raise_signal(signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_a_fork_exits_as_a_new_program_does(said, body, code):
    run = "handler = lambda *_: None\nsignal.signal(signal.SIGTERM, handler)\n"
    run += "child = start(stderr=subprocess.PIPE)\nerr = child.communicate()[1].decode()\n"
    answer = said(body, run + "print(child.returncode)\nprint(err)")
    assert answer[0] == str(code)
    for words in ("in words", "ValueError: broken"):
        assert (words in answer) == (words.rpartition(" ")[2] in body)


def test_everything_of_a_fork_is_written_and_its_exit_functions_run_at_its_end(said):
    body = (
        "atexit.register(print, 'exit function')\n"
        "def last(): threading.main_thread().join(); print('thread')\n"
        "threading.Thread(target=last).start()\n"
        "sys.stdout.write('main ')"
    )
    assert said(body, TELL) == ["main thread", "exit function"]


def test_what_a_parent_cleans_up_at_its_exit_stays_while_its_forks_exit(said):
    code = (
        "import atexit, tempfile\n"
        "folder = tempfile.TemporaryDirectory()\n"
        "atexit.register(print, 'exit of the parent')\n"
        f"{TELL}\n"
        "print(os.path.isdir(folder.name))"
    )
    assert said("print('fork')", code) == ["fork", "True", "exit of the parent"]


def test_a_fork_cleans_up_what_it_made_itself(said, tmp_path):
    body = (
        "import tempfile\n"
        f"fork.made = tempfile.TemporaryDirectory(dir={str(tmp_path)!r}, prefix='made-')\n"
        "print(os.path.isdir(fork.made.name))"
    )
    code = f"import tempfile\nfolder = tempfile.TemporaryDirectory()\n{TELL}"
    assert said(body, code) == ["True"]
    assert list(tmp_path.glob("made-*")) == []


def test_a_fork_ends_the_processes_that_multiprocessing_started(said):
    body = (
        "import multiprocessing\n"
        "waits = multiprocessing.Process(target=signal.pause, daemon=True)\n"
        "waits.start()\n"
        "print(waits.pid)"
    )
    (pid,) = said(body, f"import multiprocessing.util\n{TELL}")
    assert not Path(f"/proc/{pid}").exists()


def test_what_a_parent_has_not_written_yet_is_written_once(said):
    buffered = "sys.stdout = open(1, 'w', closefd=False)"
    code = f"{buffered}\nsys.stdout.write('parent ')\nstart(stdout=None).wait()"
    assert said("print('fork')", code) == ["fork", "parent "]


def test_forks_of_a_fork_are_forks(said):
    body = (
        "if sys.argv[1] == 'again': print(is_fork, sys.argv[1]); return\n"
        "from lefleet.process import launch\n"
        "launch((sys.executable, '-m', 'program', 'again')).wait()"
    )
    assert said(body, TELL) == ["True again"]


def test_forks_draw_different_random_numbers(said):
    body = "import numpy, random; print(numpy.random.random(), random.random())"
    code = f"import numpy, random\n{TELL}\n{TELL}"
    first, second = said(body, code)
    assert not set(first.split()) & set(second.split())
