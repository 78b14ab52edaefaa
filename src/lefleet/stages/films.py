"""Films of pairs: both episodes of a pair run again, in the same rows of the same batches, with the
camera on.

Episodes are deterministic, so a gate need not film the hundreds of pairs that nobody will look at.
In the folder `films` of a gate, each filmed pair has two videos, and a JSON file that says who
asked for them and whether the second run of the episodes equals the first. A lock beside it is held
by the process that makes them: a request without it belongs to a process that was killed.
"""

import contextlib
import os
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from lefleet.durable import flush_folder, write_durably
from lefleet.errors import BadInput, LeFleetError
from lefleet.process import is_held
from lefleet.process.liveness import take_lock
from lefleet.records import CompareRequest, EpisodeRecord, decode, encode
from lefleet.records.border import Strict
from lefleet.records.evaluate import PolicyRole
from lefleet.rollouts import (
    Act,
    EpisodeBatch,
    Finished,
    PlannedEpisode,
    Simulators,
    default_workers,
)
from lefleet.stages.cameras import rendered_cameras
from lefleet.stages.environment import begun_tasks
from lefleet.stages.evaluate import EPISODES
from lefleet.stages.folder import LOG, StageFolder
from lefleet.stages.gather import Key, file_name, plan_batches
from lefleet.stages.progress import Progress, Update, silent
from lefleet.stages.references import find_checkpoint, verify_pins
from lefleet.stages.verdict import Trial, gate_order

FILMS = "films"
"""Folder of a gate's films."""
FILMING = Update.phase("filming pairs")
ROLES: tuple[PolicyRole, ...] = ("candidate", "baseline")


class EpisodeFilm(Strict, frozen=True, kw_only=True):
    """The film of one policy's episode."""

    video: str
    """File in the folder of films."""
    success: bool
    length: int
    is_same: bool
    """Whether the episode began and ended as it did in the gate: initial state, success, steps."""


class PairFilm(Strict, frozen=True, kw_only=True):
    """The films of one pair, asked for or made."""

    task: str
    seed: int
    state: Literal["requested", "made", "failed"]
    who: str
    """Who asked for them."""
    at: float
    """When, in seconds since 1970."""
    problem: str = ""
    """Why they could not be made, and what to do."""
    candidate: EpisodeFilm | None = None
    """None until they are made."""
    baseline: EpisodeFilm | None = None

    @property
    def trial(self) -> Trial:
        return Trial(self.task, self.seed)


class JudgedPair(NamedTuple):
    """What a pair's choice depends on."""

    trial: Trial
    candidate: bool
    """Success."""
    baseline: bool


def chosen_pairs(pairs: Sequence[JudgedPair], number: int) -> list[Trial]:
    """Which of these to film: won and lost ones in turn, then those in which both did the same;
    each time the first one of the task that was chosen least."""
    won = [one.trial for one in pairs if one.candidate > one.baseline]
    lost = [one.trial for one in pairs if one.candidate < one.baseline]
    same = [one.trial for one in pairs if one.candidate == one.baseline]
    chosen: list[Trial] = []
    times: Counter[str] = Counter()
    next_kind, other_kind = won, lost
    while len(chosen) < min(number, len(pairs)):
        kind = next_kind or other_kind or same
        trial = min(kind, key=lambda one: times[one.task])
        kind.remove(trial)
        chosen.append(trial)
        times[trial.task] += 1
        next_kind, other_kind = other_kind, next_kind
    return chosen


def read_film(gate: Path, task: str, seed: int) -> PairFilm | None:
    """The film of a pair in the folder of its gate; None where nobody asked, or its videos were
    removed."""
    trial = Trial(task, seed)
    file = _file(gate, trial, ".json")
    if not file.exists():
        return None
    try:
        film: PairFilm = decode(file.read_bytes(), PairFilm, str(file))
    except BadInput as error:
        return PairFilm(task=task, seed=seed, state="failed", who="", at=0.0, problem=str(error))
    if film.state == "made" and not all(_video(gate, trial, role).exists() for role in ROLES):
        return None
    if film.state == "requested" and not is_held(lock_file(gate, trial)):
        problem = "The process that made it was interrupted. Ask for it again."
        return msgspec.structs.replace(film, state="failed", problem=problem)
    return film


def requested(trial: Trial, who: str) -> PairFilm:
    """A film that `who` asks for now."""
    return PairFilm(task=trial.task, seed=trial.seed, state="requested", who=who, at=time.time())


def ask(gate: Path, trial: Trial, who: str) -> PairFilm:
    """Write down that `who` asks for a film of this pair; the caller holds its lock."""
    film = requested(trial, who)
    _write(gate, film)
    return film


def lock_file(gate: Path, trial: Trial) -> Path:
    """Held by the process that films this pair."""
    return _file(gate, trial, ".lock", hidden=True)


def claim(gate: Path, trial: Trial) -> int | None:
    """The lock of a pair's film, open and held; None where another process makes it."""
    path = lock_file(gate, trial)
    path.parent.mkdir(exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if take_lock(lock):
        return lock
    os.close(lock)
    return None


@contextlib.contextmanager
def claimed(gate: Path, trials: Sequence[Trial]) -> Iterator[list[Trial]]:
    """Those of these pairs that no other process films; their locks are held meanwhile."""
    with contextlib.ExitStack() as locks:
        mine = []
        for trial in trials:
            if (lock := claim(gate, trial)) is not None:
                locks.callback(os.close, lock)
                mine.append(trial)
        yield mine


def film_chosen(
    request: CompareRequest, gate: Path, pairs: Sequence[JudgedPair], progress: Progress
) -> None:
    """At the end of a gate, the pairs that its request asks for.

    Each of them is tried once, also where the stage is resumed: graphics that take the process down
    or hang must not keep a gate from ending.
    """
    trials = chosen_pairs(pairs, request.films)
    with claimed(gate, [one for one in trials if read_film(gate, *one) is None]) as mine:
        film_pairs(request, gate, [ask(gate, trial, "lefleet") for trial in mine], progress)


def film_pairs(
    request: CompareRequest, gate: Path, asked: Sequence[PairFilm], progress: Progress = silent
) -> list[PairFilm]:
    """Make these films, in the order in which they were asked for; whatever fails is told by the
    film, in its file too. The caller holds their locks."""
    require_filmable(request, gate)
    made: dict[Trial, PairFilm] = {}
    problem = ""
    try:
        for film in _made(request, gate, asked, progress):
            made[film.trial] = film
            _write(gate, film)
    except (LeFleetError, OSError) as error:
        traceback.print_exc()
        problem = str(error)
    for film in asked:
        if film.trial not in made:
            made[film.trial] = msgspec.structs.replace(film, state="failed", problem=problem)
            with contextlib.suppress(OSError):
                _write(gate, made[film.trial])
    return [made[film.trial] for film in asked]


def require_filmable(request: CompareRequest, gate: Path) -> None:
    """Raise BadInput for a gate whose episodes cannot be run again."""
    begun_tasks(request, gate)


def _made(
    request: CompareRequest, gate: Path, asked: Sequence[PairFilm], progress: Progress
) -> Iterator[PairFilm]:
    """Films as they are made."""
    if not asked:
        return
    progress(FILMING)
    recorded = {(one.policy, Trial(one.task, one.seed)): one for one in _episodes(gate)}
    candidate = find_checkpoint(request.checkpoint, "checkpoint")
    baseline = find_checkpoint(request.baseline, "baseline")
    verify = verify_pins(StageFolder(gate, request), checkpoint=candidate, baseline=baseline)
    verify()
    paths: dict[PolicyRole, str] = {"candidate": candidate.path, "baseline": baseline.path}
    wanted = {film.trial: film for film in asked}
    batches = [batch for role in ROLES for batch in _batches(request, gate, wanted, role, paths)]
    ended: defaultdict[Trial, dict[str, Finished]] = defaultdict(dict)

    def report() -> None:
        progress(Update(sum(map(len, ended.values())), 2 * len(wanted), "films", FILMING.detail))

    most = request.workers or default_workers(request.device, request.env)
    workers = min(most, len(batches))
    with Simulators(workers=workers, device=request.device, log=gate / FILMS / LOG) as simulators:
        for finished in simulators.run(batches, on_begin=report):
            trial = Trial(finished.task, finished.seed)
            ended[trial][finished.label] = finished
            report()
            if len(ended[trial]) == len(ROLES):
                verify()
                before = {role: recorded[role, trial] for role in ROLES}
                yield _finish(gate, wanted[trial], ended[trial], before)


def _batches(
    request: CompareRequest,
    gate: Path,
    wanted: dict[Trial, PairFilm],
    role: PolicyRole,
    paths: dict[PolicyRole, str],
) -> Iterator[EpisodeBatch]:
    """Of one policy: laid out over all pairs, as in the gate, and thinned out to those wanted."""

    def plan_episode(row: int, key: Key) -> PlannedEpisode:
        video = str(_video(gate, Trial(key.task, key.seed), role, hidden=True))
        number = key.seed - request.seed
        return PlannedEpisode(row=row, task=key.task, seed=key.seed, number=number, video=video)

    order = gate_order(request, begun_tasks(request, gate))
    for batch in plan_batches(
        [Key(paths[role], *trial) for trial in order],
        {Key(paths[role], *trial) for trial in order if trial not in wanted},
        size=request.batch_size,
        behaviour=Act(),
        plan_episode=plan_episode,
        env=request.env,
        cameras=rendered_cameras(paths[role], request.env),
    ):
        yield msgspec.structs.replace(batch, label=role)


def _finish(
    gate: Path,
    film: PairFilm,
    finished: dict[str, Finished],
    recorded: dict[PolicyRole, EpisodeRecord],
) -> PairFilm:
    """The film of a pair of which both episodes have ended; its videos get their final names."""
    if problem := next((one.video_problem for one in finished.values() if one.video_problem), ""):
        return msgspec.structs.replace(film, state="failed", problem=problem)
    episodes = {}
    for role in ROLES:
        now, before = finished[role], recorded[role]
        video = _video(gate, film.trial, role)
        _publish(Path(now.video), video)
        episodes[role] = EpisodeFilm(
            video=video.name,
            success=now.success,
            length=now.length,
            is_same=(now.success, now.length) == (before.success, before.length)
            and before.start in ("", now.start),
        )
    return msgspec.structs.replace(
        film, state="made", candidate=episodes["candidate"], baseline=episodes["baseline"]
    )


def _publish(partial: Path, path: Path) -> None:
    """A video under its final name is complete, also after the machine stopped."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    flush_folder(path.parent)


def _episodes(gate: Path) -> list[EpisodeRecord]:
    file = gate / EPISODES
    lines = file.read_bytes().splitlines()
    return [decode(line, EpisodeRecord, f"{file}, line {at}") for at, line in enumerate(lines, 1)]


def _write(gate: Path, film: PairFilm) -> None:
    write_durably(_file(gate, film.trial, ".json"), encode(film))


def _video(gate: Path, trial: Trial, role: PolicyRole, *, hidden: bool = False) -> Path:
    return _file(gate, trial, f"_{role}.mp4", hidden=hidden)


def _file(gate: Path, trial: Trial, ending: str, *, hidden: bool = False) -> Path:
    """One of a pair's files."""
    return gate / FILMS / f"{'.' if hidden else ''}{file_name(trial.task)}_{trial.seed}{ending}"
