"""Pure statistics: numbers in, numbers out; numpy and scipy only, loaded when they are needed.

Imports `errors`, and from `records` the types of a gate; `stages` and `loop` import it. Outcomes of
episodes come from the stages and leave as decisions, levels and intervals.

    gate        pairs to a decision, one by one
    inputs      pairs, and what given numbers must be
    sign_test   the exact sequential test for success
    evalue      e-values for success and progress
    intervals   of a rate, and of a difference: once, and at every look
    futility    when to give up
    needed      about how many pairs would settle a comparison
    levels      the level of each gate of a run
    planning    what a test of fixed size needs, and whether there is room for an improvement
"""

from lefleet.stats.gate import Gate, GateRule
from lefleet.stats.inputs import Pair, match_trials, progress_of, success_of
from lefleet.stats.intervals import exact_interval, least_difference
from lefleet.stats.levels import gate_level
from lefleet.stats.needed import needed_pairs
from lefleet.stats.planning import (
    fixed_power,
    fixed_size,
    has_room,
    pairs_for_room,
    possible_pairs,
)

__all__ = [
    "Gate",
    "GateRule",
    "Pair",
    "exact_interval",
    "fixed_power",
    "fixed_size",
    "gate_level",
    "has_room",
    "least_difference",
    "match_trials",
    "needed_pairs",
    "pairs_for_room",
    "possible_pairs",
    "progress_of",
    "success_of",
]
