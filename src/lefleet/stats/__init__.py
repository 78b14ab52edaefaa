"""Pure statistics: numbers in, numbers out; numpy and scipy only, loaded when they are needed.

Imports `errors`, and from `records` the types of a gate; `stages` and `loop` import it. Outcomes of
episodes come from the stages and leave as decisions, levels and intervals.

    gate         pairs to a decision, one by one
    pairing      pairs from outcomes
    spending     the exact sequential test for success
    null_mass    the distribution under "not better" that it spends
    ladder       its p-value while it has not rejected
    evalue       e-values for success and progress
    sequence     the interval of the difference
    futility     when to give up
    schedule     the level of each gate of a run
    fixed_size   what a test of fixed size needs
    intervals    the exact interval of a rate
    checks       what given numbers must be
"""

from lefleet.stats.checks import progress_of, success_of
from lefleet.stats.fixed_size import fixed_power, fixed_size
from lefleet.stats.gate import Gate, GateRule
from lefleet.stats.intervals import exact_interval
from lefleet.stats.pairing import Pair, match_trials
from lefleet.stats.schedule import gate_alpha

__all__ = [
    "Gate",
    "GateRule",
    "Pair",
    "exact_interval",
    "fixed_power",
    "fixed_size",
    "gate_alpha",
    "match_trials",
    "progress_of",
    "success_of",
]
