"""The pairs behind a gate, in the order in which they were judged, and their films."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from lefleet.ledger import Ledger
from lefleet.ledger.episodes import GateEpisode
from lefleet.loop.requests import stage_folder
from lefleet.loop.runs import find
from lefleet.queries.paging import DEFAULT_LIMIT, Page, checked
from lefleet.records import CompareRequest, ComparisonRecord
from lefleet.records.border import Strict
from lefleet.stages.environment import episode_tasks
from lefleet.stages.films import JudgedPair, PairFilm, read_film
from lefleet.stages.verdict import Trial, gate_order

PairResult = Literal["won", "lost", "both", "neither"]
"""Of the candidate; both or neither of the two checkpoints succeeded."""


class PairEpisode(Strict, frozen=True, kw_only=True):
    """How one checkpoint's episode ended."""

    success: bool
    progress: float
    length: int
    """Steps; 0 where lerobot-eval ran the episode, for an older version."""


class GatePair(Strict, frozen=True, kw_only=True):
    """What both checkpoints did from the same start."""

    number: int
    """From 1 on, in the order of judging."""
    task: str
    seed: int
    outcome: PairResult
    candidate: PairEpisode
    baseline: PairEpisode
    film: PairFilm | None


def pairs(
    ledger: Ledger,
    workdir: Path,
    run: str,
    cycle: int,
    *,
    differing: bool = False,
    offset: int = 0,
    limit: int = DEFAULT_LIMIT,
) -> Page[GatePair]:
    """The pairs that the gate of a cycle judged; those with `differing` in which one of the two
    succeeded. None where there is no gate, or not yet. BadInput: there is no such run."""
    offset, limit = checked(offset, limit)
    run = find(ledger, run).id
    judged = _judged(ledger, run, cycle)
    if differing:
        judged = [one for one in judged if one[1].success != one[2].success]
    gate = stage_folder(workdir / run, cycle, "gate")
    return Page(
        items=tuple(_pair(gate, *one) for one in judged[offset : offset + limit]),
        total=len(judged),
        offset=offset,
    )


def judged_pairs(ledger: Ledger, run: str, cycle: int) -> list[JudgedPair]:
    """All pairs of a gate, in the order of judging."""
    return [
        JudgedPair(Trial(ours.task, ours.seed), ours.success, theirs.success)
        for _, ours, theirs in _judged(ledger, run, cycle)
    ]


def _judged(ledger: Ledger, run: str, cycle: int) -> list[tuple[int, GateEpisode, GateEpisode]]:
    """Number, candidate's and baseline's episode. A gate may have run episodes that it no longer
    needed: these are left out."""
    attempt = ledger.episodes.gate(run, cycle)
    if attempt is None:
        return []
    request, record = attempt.request, attempt.record
    if not isinstance(request, CompareRequest) or not isinstance(record, ComparisonRecord):
        return []
    episodes = ledger.episodes.of_gate(run, cycle)
    count = sum(one.pairs for one in record.per_task.values())
    found = {(one.policy, one.task, one.seed): one for one in episodes}
    return [
        (number, found["candidate", *trial], found["baseline", *trial])
        for number, trial in enumerate(_order(request, record, episodes)[:count], 1)
    ]


def _order(
    request: CompareRequest, record: ComparisonRecord, episodes: Sequence[GateEpisode]
) -> list[Trial]:
    """The gate's pairs, of which it judged the first."""
    tasks = record.tasks
    if not tasks and request.env:
        # An older version let lerobot-eval run all episodes, task by task.
        tasks = tuple(dict.fromkeys(one.task for one in episodes))
    return gate_order(request, tasks or episode_tasks(request, None))


def _pair(gate: Path, number: int, ours: GateEpisode, theirs: GateEpisode) -> GatePair:
    return GatePair(
        number=number,
        task=ours.task,
        seed=ours.seed,
        outcome=_result(ours.success, theirs.success),
        candidate=_outcome(ours),
        baseline=_outcome(theirs),
        film=read_film(gate, ours.task, ours.seed),
    )


def _result(candidate: bool, baseline: bool) -> PairResult:
    if candidate == baseline:
        return "both" if candidate else "neither"
    return "won" if candidate else "lost"


def _outcome(episode: GateEpisode) -> PairEpisode:
    return PairEpisode(success=episode.success, progress=episode.progress, length=episode.length)
