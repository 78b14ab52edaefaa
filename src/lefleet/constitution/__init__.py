"""Rules that a person owns, and the checks that every start of a program passes.

    schema       the YAML file: its fields, its mistakes, where it is found
    grants       what a run's own config, or a person's command, names
    rules        both together, and the checks of runs, stages, programs, servers and rollouts
    checks       single things by the rules: names, numbers, task texts, robots
    commands     a command line by what its arguments mean
    argv         a command line to program and flags
    paths        whether a folder or a hub id is listed
    active       the rules of this process and of its children
    text         rules and their differences in words

The file comes from the run's config, the work folder, or LeFleet itself. The ledger keeps the rules
with the run; processes hand them to their children. Imports `errors`, `records` and the task names
of `sim`; `process`, `stages`, `loop`, `edge` and `cli` import it. A denial is
`lefleet.errors.Denied`.
"""

from lefleet.constitution.active import active, given, handed_down, install, installed, reinstated
from lefleet.constitution.grants import Grants
from lefleet.constitution.rules import (
    RolloutFacts,
    Rules,
    restored,
    rules_for,
    rules_for_grants,
    rules_for_request,
    stored,
)
from lefleet.constitution.schema import Constitution, ConstitutionSource, find, packaged

__all__ = [
    "Constitution",
    "ConstitutionSource",
    "Grants",
    "RolloutFacts",
    "Rules",
    "active",
    "find",
    "given",
    "handed_down",
    "install",
    "installed",
    "packaged",
    "reinstated",
    "restored",
    "rules_for",
    "rules_for_grants",
    "rules_for_request",
    "stored",
]
