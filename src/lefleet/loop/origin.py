"""What a new run takes from another one: `--from RUN[:CYCLE]`.

Its data, its blessed checkpoint and the numbers of the seeds that are still fresh, all as they were
after one decision. They stay in the folder of that run; the ledger keeps paths and digests.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from lefleet.errors import BadInput
from lefleet.ledger import Ledger, RunRow
from lefleet.loop.requests import free_cycles, require_seeds, run_tasks, seed_cycle, stage_folder
from lefleet.loop.state import (
    CycleState,
    RunState,
    read_state,
    stored_config,
    stored_origin,
)
from lefleet.records import (
    CheckpointRecord,
    DatasetSource,
    ExpertGrowth,
    OriginData,
    RunConfig,
    RunOrigin,
)
from lefleet.stages.cameras import asked_cameras
from lefleet.stages.contract import require_same_shape
from lefleet.stages.progress import DIGESTING, Progress, silent
from lefleet.stages.references import find_checkpoint, find_dataset

_RESTORE = "Restore it, or start from another cycle or run."


class OriginName(NamedTuple):
    """`RUN` or `RUN:CYCLE` as it was written."""

    run: str
    cycle: int | None
    """None: the last one that was decided."""

    def means(self, origin: RunOrigin) -> bool:
        """Whether a run with this origin was started by this name."""
        return self.run == origin.run and self.cycle in (None, origin.cycle)


def parse_origin(text: str) -> OriginName:
    run, colon, cycle = text.partition(":")
    if colon and not cycle.isdecimal():
        raise BadInput(f"from: {cycle!r} is not a cycle of {run}.", f"Write {run}:0 or {run}.")
    return OriginName(run, int(cycle) if colon else None)


def find_origin(
    ledger: Ledger,
    workdir: Path,
    name: OriginName,
    config: RunConfig,
    progress: Progress = silent,
) -> RunOrigin:
    """What a run with `config` takes from the run that `name` stands for; BadInput where that is
    missing, has changed, or does not fit."""
    if name.run == config.name:
        raise BadInput(
            f"from: {name.run} cannot start from itself.",
            "Give the new run another --name. To continue this one: "
            f"lefleet resume {name.run} --budgets.cycles=N",
        )
    row = _row(ledger, name.run)
    state = read_state(ledger, row)
    _require_same_task(state.config, config, row.id)
    cycle = _decided(state, name)
    blessed = state.blessed_after(cycle.index)
    rung, result = (
        (state.rung_of(blessed.digest), state.result_of(blessed.digest))
        if blessed is not None
        else (None, None)
    )
    if blessed is None or rung is None or result is None:
        raise BadInput(
            f"from: {row.id} has no blessed checkpoint after cycle {cycle.index}.",
            "Name a later cycle, or start without --from.",
        )
    where = f"{row.id}:{cycle.index}"
    progress(DIGESTING)
    _require_unchanged(blessed, where)
    takes_data = not isinstance(config.collect, DatasetSource)
    data = tuple(_data(state, workdir / row.id, cycle)) if takes_data else ()
    for one in data:
        if not Path(one.path).is_dir():
            raise BadInput(f"from: the data of {where} is missing: {one.path}.", _RESTORE)
    if isinstance(config.collect, ExpertGrowth) and isinstance(state.config.collect, DatasetSource):
        cameras = asked_cameras(config.collect)
        require_same_shape(find_dataset(data[0].path, "from").record.root, "from", cameras)
    origin = RunOrigin(
        run=row.id,
        cycle=cycle.index,
        checkpoint=msgspec.structs.replace(blessed, curve=()),
        result=result,
        rung=rung,
        data=data,
        seed_cycles=free_cycles(
            seeds_taken(ledger, row.id, config.seed).values(), config.budgets.cycles
        ),
    )
    require_seeds(config, origin)
    return origin


def _row(ledger: Ledger, run: str) -> RunRow:
    row = ledger.run(run)
    if row is None:
        names = ", ".join(one.id for one in ledger.runs()) or "none"
        raise BadInput(f"from: there is no run called {run}.", f"Runs here: {names}.")
    return row


def _require_same_cameras(theirs: ExpertGrowth, mine: ExpertGrowth, run: str) -> None:
    """The new demonstrations are added to the other run's."""
    had, has = (", ".join(one.cameras) or "none" for one in (theirs, mine))
    if set(theirs.cameras) != set(mine.cameras):
        raise BadInput(
            f"collect.cameras: {run} has {had}, this config names {has}.",
            "Use the same, or start without --from.",
        )
    if mine.cameras and theirs.image_size != mine.image_size:
        raise BadInput(
            f"collect.image_size: {run} has {theirs.image_size}, this config {mine.image_size}.",
            "Use the same, or start without --from.",
        )


def _require_same_task(theirs: RunConfig, mine: RunConfig, run: str) -> None:
    """The checkpoint is the baseline of the first gate, and its rate was measured on its own
    tasks."""
    if theirs.evaluate.env != mine.evaluate.env:
        raise BadInput(
            f"evaluate.env: {run} was evaluated with {theirs.evaluate.env or 'MetaWorld'}, this "
            f"config names {mine.evaluate.env or 'MetaWorld'}.",
            "Use the same, or start without --from.",
        )
    if isinstance(theirs.collect, ExpertGrowth) and isinstance(mine.collect, ExpertGrowth):
        _require_same_cameras(theirs.collect, mine.collect, run)
    if _tasks(theirs) != _tasks(mine):
        raise BadInput(
            f"tasks: {run} was evaluated on {', '.join(theirs.tasks)}, this config names "
            f"{', '.join(mine.tasks)}.",
            "Use the same tasks, or start without --from.",
        )


def _tasks(config: RunConfig) -> set[str]:
    return set(run_tasks(config))


def _decided(state: RunState, name: OriginName) -> CycleState:
    decided = [cycle for cycle in state.cycles if cycle.decision is not None]
    if not decided:
        raise BadInput(
            f"from: {name.run} has not decided about a cycle yet.",
            f"See: lefleet status {name.run}",
        )
    if name.cycle is None:
        return decided[-1]
    if name.cycle >= len(decided):
        raise BadInput(
            f"from: {name.run} has no decision about cycle {name.cycle}.",
            f"Its last one is about cycle {decided[-1].index}.",
        )
    return decided[name.cycle]


def _require_unchanged(checkpoint: CheckpointRecord, where: str) -> None:
    path = Path(checkpoint.path)
    if not path.is_dir():
        raise BadInput(f"from: the checkpoint of {where} is missing: {path}.", _RESTORE)
    found = find_checkpoint(str(path), "from")
    if found.digest != checkpoint.digest:
        raise BadInput(
            f"from: the checkpoint of {where} in {path} has changed (digest {found.digest[:12]} "
            f"now, {checkpoint.digest[:12]} in the ledger).",
            _RESTORE,
        )


def _data(state: RunState, folder: Path, until: CycleState) -> Iterator[OriginData]:
    """What the run would add to after `until`, without data that is known to have led to a worse
    policy."""
    if isinstance(state.config.collect, DatasetSource):
        if (dataset := until.dataset()) is not None:
            path = stage_folder(folder, until.index, "collect")
            yield OriginData(path=str(path), digest=dataset.digest)
        return
    yield from state.origin.data if state.origin else ()
    for cycle in state.cycles[: until.index + 1]:
        if (dataset := cycle.dataset()) is not None:
            digest = dataset.added.digest if dataset.added else dataset.digest
            path = stage_folder(folder, cycle.index, "collect") / "dataset"
            yield OriginData(path=str(path), digest=digest)
    rolled_back = {
        cycle.index
        for cycle in state.cycles
        if cycle.decision and cycle.decision.decision == "rollback"
    }
    for cycle in state.cycles[: until.index + 1]:
        mix = cycle.mix()
        if mix and mix.dataset.added and cycle.index + 1 not in rolled_back:
            added = mix.dataset.added
            path = stage_folder(folder, cycle.index, "improve") / "added"
            yield OriginData(path=str(path), digest=added.digest, self_generated=added.episodes)


def seeds_taken(ledger: Ledger, run: str, seed: int) -> dict[str, range]:
    """The cycles in the seeds of `seed` that belong to `run`, and to each run that --from connects
    with it: all that their budgets allow."""
    rows = {row.id: row for row in ledger.runs()}
    family = [row for row in rows.values() if _root(rows, row.id) == _root(rows, run)]
    taken = {}
    for row in family:
        config, first = stored_config(row), seed_cycle(stored_origin(row), 0)
        if config.seed == seed:
            taken[row.id] = range(first, first + config.budgets.cycles)
    return taken


def _root(rows: dict[str, RunRow], run: str) -> str:
    """The run that `run` and those before it came from in the end."""
    while run in rows and (origin := rows[run].origin) is not None:
        run = origin["run"]
    return run


def require_own_seeds(ledger: Ledger, run: str, config: RunConfig) -> None:
    """Raise BadInput where the cycles that `config` adds to a run would use the seeds of another
    run that --from connects with it."""
    taken = seeds_taken(ledger, run, config.seed)
    mine = taken.pop(run)
    added = range(mine.stop, mine.start + config.budgets.cycles)
    for name, theirs in taken.items():
        first = max(added.start, theirs.start)
        if first < min(added.stop, theirs.stop):
            most = first - mine.start
            raise BadInput(
                f"budgets.cycles: the seeds after {most} cycles of {run} belong to the run {name}.",
                f"Allow at most {most}, or start a new run from this one: lefleet run -c FILE "
                f"--from {run} --name=NAME",
            )
