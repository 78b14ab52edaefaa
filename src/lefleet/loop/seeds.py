"""Which seeds a cycle may use: own ones for every purpose, run and cycle.

Evaluation blocks are the same in every cycle of a run, so that rates can be compared; data and
gates get fresh seeds in every cycle.
"""

from lefleet.errors import BadInput
from lefleet.records import SeedBlock

PER_RUN = 1_000_000
PER_CYCLE = 10_000
_RUNS = 100
_CYCLES = PER_RUN // PER_CYCLE


def first_seed(purpose: SeedBlock, run_seed: int, cycle: int) -> int:
    """First of the seeds that belong to `cycle`; evaluation does not depend on it."""
    if run_seed >= _RUNS:
        raise BadInput(f"seed: {run_seed} is too large.", f"Choose one from 0 to {_RUNS - 1}.")
    if cycle >= _CYCLES:
        raise BadInput(f"budgets.cycles: there are seeds for {_CYCLES} cycles only.")
    offset = 0 if purpose is SeedBlock.EVALUATE else cycle * PER_CYCLE
    return int(purpose) + run_seed * PER_RUN + offset
