"""Which episodes a profile runs, and what they come to: cells, and the envelope. Pure functions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import NamedTuple

import numpy as np

from lefleet.records import DelayCell, DrivenEpisode, ProfileRequest
from lefleet.records.border import Strict
from lefleet.records.profile import ProfileMerge
from lefleet.stages.evaluate import rate_of
from lefleet.stats import least_difference

READY = b"ready"
"""Asks a robot's process whether it has started, so that none drives while others still load."""
MOST_LATE = 0.01
"""Share of late ticks above which a machine was too busy to measure anything."""


class EpisodeKey(NamedTuple):
    """An episode of one cell."""

    task: str
    seed: int


class SeedRun(NamedTuple):
    """Episodes of one task with consecutive seeds, for one robot."""

    task: str
    first_seed: int
    episodes: int


class RobotWork(Strict, frozen=True, kw_only=True):
    """What a robot's process is asked: a run of episodes over one link."""

    task: str
    first_seed: int
    episodes: int
    checkpoint: str
    """Folder with the policy's settings; its weights are on the server."""
    port: int
    delay_ms: float
    """Of this link, for the episodes' records and for time-outs."""
    merge: ProfileMerge
    episode_length: int


class JudgedEnvelope(NamedTuple):
    """The cell up to which a checkpoint keeps its success, or why there is none."""

    delay_ms: float
    envelope_ms: float
    note: str = ""


def delays_of(request: ProfileRequest) -> tuple[float, ...]:
    """In rising order, 0 first."""
    return tuple(sorted({0.0, *request.delays}))


def keys_of(request: ProfileRequest, tasks: Sequence[str]) -> list[EpisodeKey]:
    """The episodes of every cell: tasks in turn, the same seeds for each."""
    numbers = range(request.episodes)
    return [EpisodeKey(tasks[i % len(tasks)], request.seed + i // len(tasks)) for i in numbers]


def share_out(keys: Collection[EpisodeKey], robots: int) -> list[SeedRun]:
    """Runs of consecutive seeds, about one for each robot and task."""
    runs: list[SeedRun] = []
    for task in dict.fromkeys(key.task for key in keys):
        seeds = sorted(key.seed for key in keys if key.task == task)
        longest = -(-len(seeds) // robots)
        runs += [SeedRun(task, *part) for run in _consecutive(seeds) for part in _cut(run, longest)]
    return runs


def _consecutive(seeds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(first, count) of each stretch without a gap."""
    for _, group in groupby(enumerate(seeds), lambda pair: pair[1] - pair[0]):
        stretch = [seed for _, seed in group]
        yield stretch[0], len(stretch)


def _cut(run: tuple[int, int], longest: int) -> Iterator[tuple[int, int]]:
    first, count = run
    for start in range(first, first + count, longest):
        yield start, min(longest, first + count - start)


def summarise(
    delay_ms: float,
    tasks: Sequence[str],
    episodes: Mapping[EpisodeKey, DrivenEpisode],
    reference: Mapping[EpisodeKey, DrivenEpisode],
) -> DelayCell:
    """One cell; `reference` are the same episodes at 0 ms."""
    lines = list(episodes.values())
    changes = [one.success - reference[key].success for key, one in episodes.items()]
    won, lost = changes.count(1), changes.count(-1)
    ticks = max(1, sum(one.ticks for one in lines))
    round_trips = [trip for one in lines for trip in one.round_trips_ms]
    is_reference = delay_ms == 0
    return DelayCell(
        delay_ms=delay_ms,
        success=rate_of([one.success for one in lines]),
        per_task={
            task: rate_of([one.success for one in lines if one.task == task])
            for task in tasks
            if any(one.task == task for one in lines)
        },
        won=won,
        lost=lost,
        least_difference=0.0 if is_reference else least_difference(won, lost, len(lines)),
        fallback_share=sum(one.fallbacks for one in lines) / ticks,
        late_share=sum(one.late for one in lines) / ticks,
        round_trip_p95_ms=round(float(np.quantile(round_trips or [0.0], 0.95)), 1),
        action_age_ms=round(fmean(one.action_age_ms for one in lines), 1),
    )


def judge_envelope(cells: Sequence[DelayCell], margin: float) -> JudgedEnvelope:
    """The last cell, in the order of delays, up to which all lose at most `margin`.

    A cell counts if the lower 95 % limit of its difference to 0 ms is not below -`margin`. The
    first that does not count ends the walk, whatever follows: so the chance that the envelope
    includes any delay that costs more than `margin` is at most 5 %, however many were tried.
    """
    busy = [cell for cell in cells if cell.late_share > MOST_LATE]
    if busy:
        worst = max(busy, key=lambda cell: cell.late_share)
        return JudgedEnvelope(
            0.0,
            0.0,
            f"the machine was too busy: {worst.late_share:.1%} of the ticks at "
            f"{worst.delay_ms:g} ms came late, so these figures mean nothing; use fewer --robots, "
            "or stop other programs and give another --out",
        )
    reference, *others = cells
    if not reference.success.successes:
        return JudgedEnvelope(0.0, 0.0, "no episode succeeded at 0 ms: there is nothing to lose")
    last = reference
    for cell in others:
        if cell.least_difference < -margin:
            break
        last = cell
    return JudgedEnvelope(last.delay_ms, last.round_trip_p95_ms)
