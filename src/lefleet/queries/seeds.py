"""The first seed of every stage of a run: with them, and the same versions, it can be repeated."""

from lefleet.queries.runs import RunReader
from lefleet.records.border import Strict


class StageSeed(Strict, frozen=True, kw_only=True):
    """Where a stage's seeds begin."""

    cycle: int
    stage: str
    first_seed: int


def stage_seeds(reader: RunReader, run: str) -> tuple[StageSeed, ...]:
    """Of the last attempt at each stage that draws seeds. BadInput: there is no such run."""
    state = reader.facts(run).state
    found: dict[tuple[int, str], int] = {}
    for attempt in state.attempts if state else ():
        seed = getattr(attempt.request, "seed", None)
        if isinstance(seed, int):
            found[attempt.cycle, attempt.stage] = seed
    return tuple(
        StageSeed(cycle=cycle, stage=stage, first_seed=seed)
        for (cycle, stage), seed in found.items()
    )
