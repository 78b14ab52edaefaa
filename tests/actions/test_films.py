"""Films of pairs on request: real processes, killed, denied and waiting for each other."""

import fcntl
import json
import os
import signal
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from lefleet.actions.films import execute, find_gate, make_films, request_film
from lefleet.cli import main
from lefleet.constitution import Grants
from lefleet.errors import BadInput, Denied
from lefleet.ledger import open_ledger
from lefleet.stages.films import FILMS, PairFilm, ask, claimed, read_film
from lefleet.stages.folder import read_record
from lefleet.stages.verdict import Trial
from tests.constitution.cases import rules
from tests.gates import CYCLE, RUN, commit, gate_of_run, request_of

LONG_S = 300.0
TURN = ".films.lock"


def first_trial(workdir: Path) -> Trial:
    return find_gate(workdir, RUN, CYCLE).chosen(1)[0]


def ask_for(workdir: Path, trial: Trial, who: str = "anna") -> PairFilm:
    return request_film(workdir, RUN, CYCLE, trial.task, trial.seed, who)


def ended(gate: Path, trial: Trial) -> PairFilm:
    """The film when no process works on it any more."""
    deadline = time.monotonic() + LONG_S
    while (film := read_film(gate, *trial)).state == "requested":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return film


def film_processes(workdir: Path) -> list[int]:
    """Of this work folder, found by their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"film" in arguments and str(workdir).encode() in arguments:
            found.append(int(entry.name))
    return found


@contextmanager
def turn_taken(workdir: Path):
    """Another process films in the work folder."""
    with (workdir / TURN).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_a_film_is_made_by_a_process_of_its_own_once(workdir, gate):
    trial = first_trial(workdir)
    asked = ask_for(workdir, trial)
    assert (asked.state, asked.who) == ("requested", "anna")
    # Also before the process has come so far as to do anything.
    assert read_film(gate, *trial) == asked
    assert ask_for(workdir, trial, "bert") == asked
    assert len(film_processes(workdir)) == 1
    made = ended(gate, trial)
    assert (made.state, made.who, made.at) == ("made", "anna", asked.at)
    assert made.candidate.is_same
    assert made.baseline.is_same
    before = (gate / FILMS / made.candidate.video).stat()
    assert ask_for(workdir, trial, "bert") == made
    assert (gate / FILMS / made.candidate.video).stat() == before


def test_a_killed_request_is_shown_as_failed_and_can_be_made_again(workdir, gate):
    """The first process waits for its turn, so that it is killed before it is done. Films that are
    made here wait for those of the second one."""
    found = find_gate(workdir, RUN, CYCLE)
    trial, other = found.chosen(2)
    with turn_taken(workdir):
        ask_for(workdir, trial)
        (process,) = film_processes(workdir)
        os.kill(process, signal.SIGKILL)
        failed = ended(gate, trial)
        assert failed.state == "failed"
        assert "interrupted" in failed.problem
        asked = ask_for(workdir, trial, "bert")
        assert (asked.state, asked.who) == ("requested", "bert")
        assert len(film_processes(workdir)) == 1
    updates = []
    films = make_films(found, [trial, other], "anna", updates.append)
    assert [(film.trial, film.state, film.who) for film in films] == [
        (trial, "made", "bert"),
        (other, "made", "anna"),
    ]
    assert {"filming pairs", "waiting for another process that films"} <= {
        update.detail for update in updates
    }


def test_unknown_runs_cycles_and_pairs_are_refused(workdir, gate):
    trial = first_trial(workdir)
    for run, cycle, task, seed, field in (
        ("other", CYCLE, *trial, "run"),
        (RUN, 0, *trial, "cycle"),
        (RUN, -1, *trial, "cycle"),
        (RUN, CYCLE, "reach", trial.seed, "task, seed"),
        (RUN, CYCLE, trial.task, 5, "task, seed"),
        (RUN, CYCLE, "../../x", trial.seed, "task, seed"),
    ):
        with pytest.raises(BadInput, match=field):
            request_film(workdir, run, cycle, task, seed, "anna")
    assert not (gate / FILMS).exists()


def test_a_gate_whose_episodes_lerobot_eval_ran_is_refused(workdir, comparison):
    stock = msgspec.structs.replace(request_of(comparison), env={"type": "libero"})
    commit(workdir, stock, read_record(comparison), (), comparison)
    with pytest.raises(BadInput, match=r"has no environment\.json: lerobot-eval ran"):
        request_film(workdir, RUN, CYCLE, "push", 1, "anna")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"tasks": {"forbidden_words": ["push"]}}, "tasks.forbidden_words"),
        ({"caps": {"batch_size": 9}}, "caps.batch_size"),
        ({"commands": {"lefleet.rollouts.worker": None}}, "commands"),
    ],
)
def test_what_the_rules_of_the_run_deny_is_denied(workdir, comparison, changes, rule):
    gate = gate_of_run(workdir, comparison, **changes)
    trial = Trial(*next((one["task"], one["seed"]) for one in _episodes(gate)))
    with pytest.raises(Denied) as denied:
        ask_for(workdir, trial)
    assert denied.value.rule == rule
    assert not (gate / FILMS).exists()
    assert film_processes(workdir) == []


def _episodes(gate: Path) -> list[dict]:
    return [json.loads(line) for line in (gate / "episodes.jsonl").read_text().splitlines()]


def test_rules_that_were_changed_in_the_ledger_film_nothing(workdir, gate):
    trial = first_trial(workdir)
    with closing(open_ledger(workdir)) as ledger:
        fields = dict(ledger.run(RUN).constitution) | {"digest": "0" * 64}
        ledger.set_constitution(RUN, fields, "0" * 64)
    with pytest.raises(Denied, match="were changed"):
        ask_for(workdir, trial)
    assert not (gate / FILMS).exists()


def test_the_film_process_is_allowed_only_in_folders_of_the_run(tmp_path):
    argv = (sys.executable, "-m", "lefleet", "film", "exec")
    own = rules(Grants(folders=(str(tmp_path / "runs"),)))
    own.check_argv((*argv, str(tmp_path / "runs"), "demo", "1", "push", "7"))
    for folder in (tmp_path, tmp_path / "runs" / "..", Path("/etc")):
        with pytest.raises(Denied, match="would write to"):
            own.check_argv((*argv, str(folder), "demo", "1", "push", "7"))
    with pytest.raises(Denied):
        own.check_argv((*argv, str(tmp_path / "runs"), "demo", "1", "push", "7", "more"))


def test_the_film_process_does_nothing_that_nobody_requested(workdir, gate):
    trial = first_trial(workdir)
    with claimed(gate, [trial]):
        ask(gate, trial, "anna")
        assert execute(workdir, RUN, CYCLE, *trial) == 1
        assert read_film(gate, *trial).state == "requested"
    assert list((gate / FILMS).glob("*.mp4")) == []


def run(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["lefleet", "film", *arguments])
    return main()


def test_the_command_prints_where_the_films_are(workdir, gate, capsys, monkeypatch):
    where = ("--workdir", str(workdir))
    assert run(monkeypatch, f"{RUN}:{CYCLE}", *where, "--pairs", "1", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    (film,) = told["films"]
    video = Path(told["folder"]) / film["candidate"]["video"]
    assert video.exists()
    pair = ("--task", film["task"], "--seed", str(film["seed"]))
    assert run(monkeypatch, f"{RUN}:{CYCLE}", *where, *pair) == 0
    printed = capsys.readouterr().out
    assert f"{film['task']}, seed {film['seed']}:" in printed
    assert f"steps: {video}\n" in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((RUN,), "names no cycle"),
        ((f"{RUN}:x",), "names no cycle"),
        ((f"{RUN}:7",), "no finished gate in cycle 7"),
        ((f"{RUN}:{CYCLE}", "--task", "push"), "only one of them is given"),
        ((f"{RUN}:{CYCLE}", "--pairs", "0"), "pairs: 0"),
        ((f"{RUN}:{CYCLE}", "--task", "push", "--seed", "1"), "no pair of push"),
    ],
)
def test_the_command_refuses_what_it_cannot_film(
    workdir, gate, capsys, monkeypatch, arguments, said
):
    assert run(monkeypatch, *arguments, "--workdir", str(workdir)) == 2
    assert said in capsys.readouterr().err
    assert not (gate / FILMS).exists()


def test_the_command_says_why_a_film_could_not_be_made(workdir, gate, capsys, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disable")
    arguments = (f"{RUN}:{CYCLE}", "--workdir", str(workdir), "--pairs", "1")
    assert run(monkeypatch, *arguments) == 1
    assert "no OpenGL library" in capsys.readouterr().err
