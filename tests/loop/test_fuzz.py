"""SIGKILL at random moments: every run finishes, every stage is committed once, none overlaps."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from lefleet.ledger import open_ledger
from lefleet.loop.runs import resume
from tests.ledger.ledgers import has_controller
from tests.loop.fuzz import Fuzz, tiny_config

CREATE = """
import sys
from pathlib import Path
from lefleet.ledger import open_ledger
from alembic import command
from tests.ledger.ledgers import has_controller
for number in range(1000):
    folder = Path(sys.argv[1]) / str(number)
    print(number, flush=True)
    open_ledger(folder).create_run("a", {})
"""


def kill_while_creating(folder: Path, kills: int, seed: int) -> None:
    """Processes that create one ledger after the other die in the middle of it."""
    chance = random.Random(seed)
    for round_ in range(kills):
        here = folder / str(round_)
        here.mkdir(parents=True)
        argv = [sys.executable, "-c", CREATE, str(here)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            for _ in range(chance.randrange(1, 6)):
                process.stdout.readline()
            # Creating one takes some tens of milliseconds; spin through a random part of it.
            for _ in range(chance.randrange(40_000)):
                os.getpid()
            process.send_signal(signal.SIGKILL)
        for ledger in here.iterdir():
            opened = open_ledger(ledger)
            opened.create_run("b", {})
            assert [row.id for row in opened.runs()] in (["a", "b"], ["b"])
            opened.close()


def test_a_ledger_killed_while_it_is_created_opens_again(tmp_path):
    kill_while_creating(tmp_path, kills=8, seed=0)


def test_a_run_survives_a_few_kills(tmp_path):
    fuzz = Fuzz(tmp_path, tiny_config("fuzz"), seed=1)
    fuzz.attack({"controller": 3, "stage": 1, "train": 1, "child": 1}, deadline_s=1500)
    fuzz.assert_sound()
    assert fuzz.kills["train"] == 1


@pytest.mark.chaos
def test_everything_of_three_runs_is_killed_at_once_and_resumed(tmp_path):
    """A reboot: nothing survives but the disk."""
    runs = [Fuzz(tmp_path, tiny_config(f"run{number}"), seed=number) for number in range(3)]
    while not all(list(run._stage_processes()) for run in runs):
        assert not any(run._is_finished() for run in runs)
    for run in runs:
        for seen in [*run._processes_of("controller"), *run._stage_processes()]:
            os.kill(seen.pid, signal.SIGKILL)
    ledger = open_ledger(tmp_path)
    for row in ledger.runs():
        assert resume(ledger, tmp_path, row) == "resumed" or has_controller(tmp_path / row.id)
    for run in runs:
        run.attack({}, deadline_s=600)
        run.assert_sound()


PLANTED = """
import os
import subprocess


class Leaky(subprocess.Popen):
    # Children inherit every descriptor, locks among them, and outlive their parent.
    def __init__(self, *args, **kwargs):
        for entry in os.listdir("/proc/self/fd"):
            try:
                os.set_inheritable(int(entry), True)
            except OSError:
                pass
        super().__init__(*args, **{**kwargs, "close_fds": False, "preexec_fn": None})


subprocess.Popen = Leaky
"""


@pytest.mark.chaos
def test_the_fuzz_finds_an_inherited_lock(tmp_path, monkeypatch):
    """The fuzz can fail: with this fault in every process, something killed looks alive."""
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    fuzz = Fuzz(tmp_path / "runs", tiny_config("planted"), seed=3)
    with pytest.raises(AssertionError, match="its owner is dead"):
        fuzz.attack({"stage": 20, "controller": 20}, deadline_s=300)
    for seen in [*fuzz._processes_of("controller"), *fuzz._stage_processes()]:
        os.kill(seen.pid, signal.SIGKILL)


CREATE_ON_SERVER = """
import sys
from pathlib import Path
from lefleet.ledger import open_ledger
from alembic import command
for number, url in enumerate(sys.argv[2:]):
    print(number, flush=True)
    open_ledger(Path(sys.argv[1]) / str(number), url).create_run("a", {})
"""


@pytest.mark.chaos
def test_a_ledger_killed_while_it_is_created_on_a_server_opens_again(tmp_path, postgres_server):
    chance = random.Random(11)
    for round_ in range(20):
        names = [f"created_{round_}_{number}" for number in range(4)]
        for name in names:
            postgres_server.execute(f"CREATE DATABASE {name}")
        urls = [postgres_server.url(name) for name in names]
        argv = [sys.executable, "-c", CREATE_ON_SERVER, str(tmp_path / str(round_)), *urls]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            for _ in range(chance.randrange(1, 4)):
                process.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.15))
            process.send_signal(signal.SIGKILL)
        for number, url in enumerate(urls):
            with closing(open_ledger(tmp_path / str(round_) / str(number), url)) as opened:
                opened.create_run("b", {})
                assert [row.id for row in opened.runs()] in (["a", "b"], ["b"])
            postgres_server.drop(url)


@pytest.mark.chaos
def test_a_run_whose_ledger_is_on_a_server_survives_kills_of_both(tmp_path, postgres_server):
    fuzz = Fuzz(tmp_path, tiny_config("fuzz"), seed=5, extended=2, server=postgres_server)
    wanted = {"controller": 30, "stage": 6, "train": 4, "child": 6, "server": 8}
    fuzz.attack(wanted, deadline_s=2400)
    fuzz.assert_sound()
    print("kills:", dict(fuzz.kills))
    assert fuzz.kills == wanted


@pytest.mark.chaos
def test_three_hundred_kills(tmp_path):
    kill_while_creating(tmp_path / "ledgers", kills=100, seed=7)
    kills: dict[str, int] = {}
    for number in range(4):
        fuzz = Fuzz(tmp_path / "runs", tiny_config(f"run{number}"), seed=number, extended=2)
        fuzz.attack({"controller": 30, "stage": 6, "train": 6, "child": 10}, deadline_s=1500)
        fuzz.assert_sound()
        for target, count in fuzz.kills.items():
            kills[target] = kills.get(target, 0) + count
    print("kills:", kills, "and 100 of processes creating ledgers")
    assert sum(kills.values()) + 100 >= 300
    assert kills["train"] >= 20
