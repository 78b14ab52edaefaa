"""Pure statistics: numbers in, numbers out; numpy and scipy only, loaded when they are needed.

May be imported by every folder, imports only `errors`. Outcomes of episodes come from the stages
and leave as decisions, levels and intervals.

    gate         pairs to a decision, one by one or all at once
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
from lefleet.stats.evalue import log_e_value
from lefleet.stats.fixed_size import fixed_power, fixed_size
from lefleet.stats.gate import Assessment, Gate, GateRule, Look, assess
from lefleet.stats.intervals import exact_interval
from lefleet.stats.pairing import Pair, Progress, match_trials, read_pairs
from lefleet.stats.schedule import gate_alpha

__all__ = [
    "Assessment",
    "Gate",
    "GateRule",
    "Look",
    "Pair",
    "Progress",
    "assess",
    "exact_interval",
    "fixed_power",
    "fixed_size",
    "gate_alpha",
    "log_e_value",
    "match_trials",
    "progress_of",
    "read_pairs",
    "success_of",
]
