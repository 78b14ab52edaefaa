"""Ask for the films of a pair: made by a process of its own, or here while the caller waits.

Under the rules of the run, as its gate was. In one work folder one process films at a time, others
wait for it: a person who clicks on ten pairs must not start twenty simulations.
"""

import fcntl
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from sqlalchemy.exc import SQLAlchemyError

from lefleet.constitution import Rules, installed, restored
from lefleet.errors import BadInput, LeFleetError, Unknown
from lefleet.ledger import read_ledger
from lefleet.loop.requests import stage_folder
from lefleet.loop.rules import begin_rules
from lefleet.loop.runs import find
from lefleet.loop.state import stored_config, stored_origin
from lefleet.process import launch
from lefleet.queries.pairs import judged_pairs
from lefleet.queries.words import workdir_flag
from lefleet.records import CompareRequest
from lefleet.stages.films import (
    FILMS,
    JudgedPair,
    PairFilm,
    ask,
    chosen_pairs,
    claim,
    claimed,
    film_pairs,
    lock_file,
    read_film,
    requested,
    require_filmable,
)
from lefleet.stages.folder import LOG
from lefleet.stages.progress import Progress, Update, silent
from lefleet.stages.verdict import Trial

_LOCK = ".films.lock"
"""In the work folder: held while a process films."""
_WAITING = Update.phase("waiting for another process that films")
_POLL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class FilmableGate:
    """A gate that has ended, and all that filming its pairs depends on."""

    workdir: Path
    folder: Path
    request: CompareRequest
    pairs: list[JudgedPair]
    """In the order of judging."""
    rules: Rules
    """Of the run; they allow the request."""

    def chosen(self, number: int) -> list[Trial]:
        """The pairs that tell most."""
        return chosen_pairs(self.pairs, number)

    def pair(self, task: str, seed: int) -> Trial:
        """The pair of this task and seed; Unknown where the gate judged none."""
        trial = Trial(task, seed)
        if not any(one.trial == trial for one in self.pairs):
            tasks = ", ".join(sorted({one.trial.task for one in self.pairs}))
            seeds = [one.trial.seed for one in self.pairs]
            raise Unknown(
                f"task, seed: the gate judged no pair of {task} with seed {seed}.",
                f"Its tasks are {tasks}, its seeds {min(seeds)} to {max(seeds)}.",
            )
        return trial


def find_gate(workdir: Path, run: str, cycle: int) -> FilmableGate:
    """The gate of a cycle. Unknown where there is none, BadInput where its pairs cannot be filmed,
    Denied where the rules of its run do not allow it any more."""
    with closing(read_ledger(workdir)) as ledger:
        row = find(ledger, run)
        attempt = ledger.episodes.gate(row.id, cycle)
        if attempt is None or not isinstance(attempt.request, CompareRequest):
            raise Unknown(
                f"cycle: {run} has no finished gate in cycle {cycle}.",
                f"Which cycles have one: lefleet status {run}{workdir_flag(workdir)}",
            )
        folder = stage_folder(workdir / row.id, cycle, "gate")
        require_filmable(attempt.request, folder)
        pairs = judged_pairs(ledger, row.id, cycle)
    if row.constitution is not None:
        rules = restored(row.constitution)
    else:
        rules = begin_rules(workdir, stored_config(row), stored_origin(row))
    rules.check_request(attempt.request)
    return FilmableGate(
        workdir=workdir,
        folder=folder,
        request=attempt.request,
        pairs=pairs,
        rules=rules,
    )


def request_film(  # noqa: PLR0917 - which pair, and who asks
    workdir: Path, run: str, cycle: int, task: str, seed: int, who: str
) -> PairFilm:
    """Have a pair filmed by a process of its own, which outlives this one.

    Returns the film as it is now: made already, being made, or just requested. One that failed, or
    whose process was killed, is made again.
    """
    workdir = workdir.resolve()
    gate = find_gate(workdir, run, cycle)
    trial = gate.pair(task, seed)
    if (film := read_film(gate.folder, *trial)) is not None and film.state != "failed":
        return film
    program = (sys.executable, "-m", "lefleet", "film", "exec")
    argv = (*program, str(workdir), run, str(cycle), task, str(seed))
    gate.rules.check_argv(argv)
    lock = claim(gate.folder, trial)
    if lock is None:
        # Another process has just been asked for it.
        return read_film(gate.folder, *trial) or requested(trial, who)
    try:
        film = ask(gate.folder, trial, who)
        with installed(gate.rules), (gate.folder / FILMS / LOG).open("ab") as log:
            # The child keeps the lock, from now to its end: its stdin is the open lock file.
            child = launch(argv, stdin=lock, stdout=log, stderr=log, detached=True)
    finally:
        os.close(lock)
    # It is not waited for here; the thread collects its exit code if this process lives longer.
    Thread(target=child.wait, daemon=True).start()
    return film


def execute(workdir: Path, run: str, cycle: int, task: str, seed: int) -> int:
    """`lefleet film exec`: make a film that was requested; its output is the films' log."""
    try:
        gate = find_gate(workdir, run, cycle)
        trial = gate.pair(task, seed)
        film = read_film(gate.folder, *trial)
        is_mine = os.path.samestat(os.fstat(0), lock_file(gate.folder, trial).stat())
        if film is None or not is_mine:
            raise BadInput("film exec: nobody requested this film.", "Use: lefleet film")
        with _turn(workdir), installed(gate.rules):
            made = film_pairs(gate.request, gate.folder, [film])
    except (LeFleetError, OSError, SQLAlchemyError):
        traceback.print_exc()
        return 1
    return 0 if made[0].state == "made" else 1


def make_films(
    gate: FilmableGate, trials: Sequence[Trial], who: str, progress: Progress = silent
) -> list[PairFilm]:
    """Film pairs of a gate here, and wait for those that another process is filming. What is made
    already is not made again."""
    films = {one: read_film(gate.folder, *one) for one in trials}
    missing = [one for one, film in films.items() if film is None or film.state != "made"]
    with claimed(gate.folder, missing) as mine:
        if mine:
            asked = [ask(gate.folder, trial, who) for trial in mine]
            progress(_WAITING)
            with _turn(gate.workdir), installed(gate.rules):
                made = film_pairs(gate.request, gate.folder, asked, progress)
            films |= {film.trial: film for film in made}
    for trial in missing:
        if trial not in mine:
            films[trial] = _awaited(gate.folder, trial, progress)
    return [film for film in films.values() if film is not None]


@contextmanager
def _turn(workdir: Path) -> Iterator[None]:
    """Wait until no other process films in this work folder, and let others wait meanwhile."""
    lock = os.open(workdir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _awaited(gate: Path, trial: Trial, progress: Progress) -> PairFilm | None:
    """The film that another process is making, when it has ended."""
    progress(_WAITING)
    while (film := read_film(gate, *trial)) is not None and film.state == "requested":
        time.sleep(_POLL_S)
    return film
