"""What a network costs: success of one policy at added latencies, against the policy on board."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.report import Section, table
from benchmarks.workshop import EASY3, Workshop, python, say
from lefleet import EnvelopeRecord, ExpertDemos, ProfileRequest, TrainRequest
from lefleet.process import Pool
from lefleet.profile.cells import MOST_LATE, READY, EpisodeKey, RobotWork, keys_of, share_out
from lefleet.records import DelayCell, DrivenEpisode, Rate
from lefleet.records.profile import ProfileMerge
from lefleet.sim.encode import FPS
from lefleet.stages.evaluate import rate_of
from lefleet.stages.references import find_checkpoint
from lefleet.stats import least_difference

MERGES: tuple[ProfileMerge, ...] = ("aligned", "append")
LOCAL = "LeRobot's sync engine, on board"
CHUNK = 60


class Size(NamedTuple):
    """How much of everything."""

    tasks: tuple[str, ...]
    demos: int
    """Per task."""
    steps: int
    delays: tuple[float, ...]
    episodes: int
    """Per cell."""
    robots: int
    episode_length: int = 0


FULL = Size(EASY3, 100, 5000, (0.0, 50.0, 200.0, 500.0), episodes=60, robots=2)
QUICK = Size(("door-open",), 2, 20, (0.0, 50.0), episodes=2, robots=1, episode_length=40)

Outcomes = Mapping[EpisodeKey, DrivenEpisode]


class Row(NamedTuple):
    """One engine at one delay."""

    engine: str
    delay_ms: float
    success: Rate
    compared: tuple[int, int]
    """Episodes that this one lost and won against the policy on board."""
    cell: DelayCell | None

    @property
    def name(self) -> str:
        return f"{self.engine} at {self.delay_ms:g} ms"

    @property
    def limits(self) -> tuple[float, float]:
        """Lower and upper 95 % limit of the difference in success to the policy on board."""
        (lost, won), pairs = self.compared, self.success.episodes
        return least_difference(won, lost, pairs), -least_difference(lost, won, pairs)


def measure(workshop: Workshop) -> Section:
    size = QUICK if workshop.quick else FULL
    checkpoint = _trained(workshop, size)
    requests = {merge: _request(size, checkpoint, merge) for merge in MERGES}
    local = _on_board(workshop, size, requests["aligned"])
    rows = [Row(LOCAL, 0.0, rate_of([one.success for one in local.values()]), (0, 0), None)]
    records = []
    for merge, request in requests.items():
        folder, record = workshop.stage(request)
        records.append(record)
        episodes = _lines(folder / record.episodes_file)
        rows += [_row(merge, cell, episodes, local) for cell in record.cells]
    return _section(size, rows, records, _late(local.values(), records))


def _trained(workshop: Workshop, size: Size) -> Path:
    demos = ExpertDemos(tasks=size.tasks, episodes_per_task=size.demos, noise=0.1)
    data, _ = workshop.stage(demos)
    chunk = {"chunk_size": str(CHUNK), "n_action_steps": str(CHUNK)}
    request = TrainRequest(dataset=str(data), tasks=size.tasks, steps=size.steps, policy=chunk)
    return workshop.stage(request)[0]


def _request(size: Size, checkpoint: Path, merge: ProfileMerge) -> ProfileRequest:
    return ProfileRequest(
        checkpoint=str(checkpoint),
        tasks=size.tasks,
        episodes=size.episodes,
        delays=size.delays,
        merge=merge,
        robots=size.robots,
        episode_length=size.episode_length,
    )


def _on_board(workshop: Workshop, size: Size, request: ProfileRequest) -> Outcomes:
    """The same episodes with the policy in the robot's process."""
    keys = keys_of(request, size.tasks)
    work = [
        RobotWork(
            task=run.task,
            first_seed=run.first_seed,
            episodes=run.episodes,
            checkpoint=find_checkpoint(request.checkpoint, "checkpoint").path,
            port=0,
            delay_ms=0.0,
            merge=request.merge,
            episode_length=request.episode_length,
        )
        for run in share_out(keys, size.robots)
    ]
    program = python("-m", "benchmarks.local_robot")
    with Pool(program, size.robots, workshop.folder / "local_robot.log") as robots:
        list(robots.run([READY] * size.robots))
        lines = list(robots.run(msgspec.json.encode(one) for one in work))
    found = [msgspec.json.decode(line, type=DrivenEpisode) for line in lines]
    say(f"on board: {sum(one.success for one in found)} of {len(found)} succeeded")
    return {EpisodeKey(one.task, one.seed): one for one in found}


def _lines(journal: Path) -> list[DrivenEpisode]:
    lines = journal.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=DrivenEpisode) for line in lines]


def _row(merge: str, cell: DelayCell, episodes: Sequence[DrivenEpisode], local: Outcomes) -> Row:
    changes = [
        one.success - local[EpisodeKey(one.task, one.seed)].success
        for one in episodes
        if one.delay_ms == cell.delay_ms
    ]
    compared = changes.count(-1), changes.count(1)
    return Row(f"remote, {merge}", cell.delay_ms, cell.success, compared, cell)


def _late(local: Sequence[DrivenEpisode], records: Sequence[EnvelopeRecord]) -> float:
    """The largest share of late ticks, of all cells."""
    on_board = sum(one.late for one in local) / sum(one.ticks for one in local)
    return max(on_board, *(cell.late_share for record in records for cell in record.cells))


def _section(
    size: Size, rows: Sequence[Row], records: Sequence[EnvelopeRecord], late: float
) -> Section:
    header = (
        "engine", "added", "success", "95 % interval", "lost, won", "difference, 95 % limits",
        "fallback", "round trip p95", "action age",
    )  # fmt: skip
    return Section(
        "success with a policy behind a slow network",
        (table(header, map(_cells, rows)),),
        (
            *_findings(rows),
            f"An ACT with chunks of {CHUNK} steps, all executed, trained on {size.demos} "
            f"demonstrations each of {', '.join(size.tasks)}. A chunk lasts {CHUNK / FPS:g} s, and "
            "most episodes are over after two: what is measured is how well plans join, and what "
            "the robot does when one is late. The simulated robots run in "
            f"wall-clock time at 80 Hz, {size.robots} at a time; {size.episodes} episodes per row, "
            "the same seeds in all. The server is a process of its own behind a TCP relay that "
            "adds half of the delay in each direction. lost, won: episodes that only the policy "
            "on board solved, or only this row; the limits of the difference to it, in points, are "
            "exact and one-sided. fallback: ticks without a fresh action.",
            *(
                f"lefleet profile says of {record.merge}: round trips up to "
                f"{record.envelope_ms:.0f} ms (margin {100 * record.margin:g} points against its "
                f"own 0 ms)."
                for record in records
                if not record.note
            ),
            f"At most {late:.2%} of the ticks of a row came late"
            + ("." if late <= MOST_LATE else ": the machine was too busy, this means nothing."),
        ),
    )


def _cells(row: Row) -> tuple[str, ...]:
    low, high = row.success.interval
    (lost, won), (worst, best) = row.compared, row.limits
    own = (
        row.engine,
        f"{row.delay_ms:g} ms" if row.cell else "no network",
        f"{row.success.successes}/{row.success.episodes}",
        f"{low:.0%} to {high:.0%}",
    )
    if row.cell is None:
        return (*own, "", "", "", "", "")
    return (
        *own,
        f"{lost}, {won}",
        f"{100 * worst:+.0f} to {100 * best:+.0f}",
        f"{row.cell.fallback_share:.1%}",
        f"{row.cell.round_trip_p95_ms:.0f} ms",
        f"{row.cell.action_age_ms:.0f} ms",
    )


def _findings(rows: Sequence[Row]) -> list[str]:
    """Where the network was shown to cost success, and where not."""
    remote = [row for row in rows if row.cell is not None]
    worse = [row.name for row in remote if row.limits[1] < 0]
    kept = [row.name for row in remote if row.limits[0] >= -ProfileRequest(checkpoint="").margin]
    open_ = [row.name for row in remote if row.name not in (*worse, *kept)]
    said = []
    if worse:
        said.append(f"Shown to cost success: {'; '.join(worse)}.")
    if kept:
        said.append(f"Shown to cost at most 15 points: {'; '.join(kept)}.")
    if open_:
        said.append(f"Neither was shown: {'; '.join(open_)}.")
    return said
