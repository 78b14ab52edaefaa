"""What of a run's config may still be corrected: one rule for every field, and why it forbids.

A correction must not falsify evidence: results that were measured under one setting are never
compared with results under another, and no test is chosen after a look at its data.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from lefleet.errors import BadInput
from lefleet.loop.state import RunState
from lefleet.records import RunConfig

Fact = Literal["begun", "collected", "trained", "evaluated", "gated", "decided"]
"""What may have happened in a run; `begun` is always true."""


class CorrectionRule(NamedTuple):
    """A field may change until this has happened; an empty fact means that it always may."""

    until: Fact | Literal[""]
    why: str = ""
    """What it would falsify from then on, to end a sentence."""


_ANY = CorrectionRule("")
_DATA = CorrectionRule("collected", "later data adds to what was collected with it")
_POLICY = CorrectionRule("trained", "results of this rung are those of the policy that it names")
_RATES = CorrectionRule("evaluated", "rates of one run must be comparable")
_TEST = CorrectionRule("gated", "a test must not be changed after a look at its data")
_TABLE = CorrectionRule("decided", "all decisions of a run follow the same table")

RULES: dict[str, CorrectionRule] = {
    "name": CorrectionRule("begun", "the run is known by it"),
    "tasks": CorrectionRule("begun", "its data and its results are about them"),
    "seed": CorrectionRule("begun", "it decides which episodes were and will be run"),
    "device": _ANY,
    "collect": CorrectionRule("collected", "later data adds to what was collected from there"),
    "collect.expert.episodes_per_task": CorrectionRule("begun", "proposals follow this schedule"),
    "collect.expert.noise": _DATA,
    "collect.expert.cameras": _DATA,
    "collect.expert.image_size": _DATA,
    "collect.dataset.repo_id": _DATA,
    "collect.dataset.root": _DATA,
    "collect.dataset.revision": _DATA,
    "collect.dataset.tasks": _DATA,
    "collect.dataset.episodes_per_task": _DATA,
    "ladder": CorrectionRule("trained", "decisions count rungs"),
    "ladder[].name": _POLICY,
    "ladder[].policy_type": _POLICY,
    "ladder[].init": _POLICY,
    "ladder[].policy": _POLICY,
    "ladder[].rename_map": _POLICY,
    "ladder[].extra_args": _POLICY,
    "ladder[].steps": _ANY,
    "ladder[].batch_size": _ANY,
    "ladder[].learning_rate": _ANY,
    "ladder[].num_workers": _ANY,
    "continue_training": CorrectionRule("trained", "checkpoints of one run begin in the same way"),
    "evaluate.episodes_per_task": _RATES,
    "evaluate.videos_per_task": _ANY,
    "evaluate.workers": _ANY,
    "evaluate.env": _RATES,
    "evaluate.initial_states": _RATES,
    "gate.alpha": _TEST,
    "gate.guarantee": _TEST,
    "gate.max_pairs": _TEST,
    "gate.min_effect": _TEST,
    "gate.metric": _TEST,
    "gate.scope": _TEST,
    "gate.look_every": _TEST,
    "gate.films": _ANY,
    "decide.baseline_floor": _TABLE,
    "decide.escalate_floor": _TABLE,
    "decide.escalate_after": _TABLE,
    "improve.method": _ANY,
    "improve.episodes_per_task": _ANY,
    "improve.mixing_ratio": _ANY,
    "constitution": CorrectionRule(
        "begun", "its rules change when their file is edited and a person approves"
    ),
    "ledger": CorrectionRule("begun", "lefleet ledger copy moves that of a whole work folder"),
    "track": _ANY,
    "max_attempts": _ANY,
    "hang_after_s": _ANY,
    "propose.*": _ANY,
    "approvals.*": _ANY,
    "notify.*": _ANY,
    "executor.*": _ANY,
    "budgets.*": _ANY,
}
"""By field. `[]` stands for any rung, `*` for every field of a section on which no evidence
depends; a section that a choice selects has the name of the choice. Budgets are also checked for
room."""


class FieldChange(NamedTuple):
    """One field that differs between two configs."""

    field: str
    """As it is written: collect.root, ladder[0].steps."""
    rule: CorrectionRule
    rung: int | None
    """That it belongs to, if it is a rung's."""
    before: Any
    now: Any


def field_changes(before: RunConfig, now: RunConfig) -> list[FieldChange]:
    """All fields that differ, with the rule of each."""
    return list(_changes(before, now, "", "", None))


def _changes(
    before: Any, now: Any, field: str, key: str, rung: int | None
) -> Iterator[FieldChange]:
    if before == now:
        return
    if isinstance(before, msgspec.Struct) and type(before) is type(now):
        tag = before.__struct_config__.tag
        place = f"{key}.{tag}" if key and isinstance(tag, str) else key
        for name in before.__struct_fields__:
            yield from _changes(
                getattr(before, name),
                getattr(now, name),
                f"{field}.{name}" if field else name,
                f"{place}.{name}" if place else name,
                rung,
            )
    elif key == "ladder" and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _changes(one, other, f"ladder[{number}]", "ladder[]", number)
    else:
        yield FieldChange(field, rule_of(key), rung, _plain(before), _plain(now))


def rule_of(key: str) -> CorrectionRule:
    """The rule of a field, by its key in the table."""
    return RULES.get(key) or RULES[f"{key.partition('.')[0]}.*"]


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


class CorrectionFacts(NamedTuple):
    """What has happened in a run, as far as rules depend on it, and since which cycle."""

    cycles: Mapping[Fact, int]
    trained_rungs: Mapping[int, int]
    """First cycle that finished a training, by rung."""

    def since(self, change: FieldChange) -> int | None:
        """The cycle from which on the rule forbids the change; None while it does not."""
        until = change.rule.until
        if not until:
            return None
        if until == "trained" and change.rung is not None:
            return self.trained_rungs.get(change.rung)
        return self.cycles.get(until)


def run_facts(state: RunState, gates_begun: Collection[int]) -> CorrectionFacts:
    """What has happened so far. `gates_begun` are the cycles whose gates were started: whoever
    stops one has seen its data. A run that started from another one is compared with that one's
    evaluation."""
    first: dict[Fact, int] = {"begun": 0}
    rungs: dict[int, int] = {}
    if state.origin is not None:
        first["evaluated"] = 0
    for cycle in state.cycles:
        found: dict[Fact, bool] = {
            "collected": cycle.dataset() is not None,
            "trained": cycle.checkpoint() is not None,
            "evaluated": cycle.evaluation() is not None,
            "gated": cycle.index in gates_begun,
            "decided": cycle.decision is not None,
        }
        for fact, is_true in found.items():
            if is_true:
                first.setdefault(fact, cycle.index)
        if cycle.checkpoint() is not None:
            rungs.setdefault(cycle.decision.rung if cycle.decision else state.rung(), cycle.index)
    return CorrectionFacts(first, rungs)


def require_correctable(
    state: RunState, changes: list[FieldChange], facts: CorrectionFacts
) -> None:
    """Raise BadInput naming the first field that may not change any more, why, and how to fork."""
    run = state.config.name
    for change in changes:
        since = facts.since(change)
        if since is None:
            continue
        when = "" if change.rule.until == "begun" else f" since cycle {since}"
        can_start_from = state.blessed() is not None and change.field not in _OTHER_RESULTS
        start = f"--from {run} " if can_start_from else ""
        value = msgspec.json.encode(change.now).decode()
        flag = f"--{change.field.partition('[')[0]}={'VALUE' if '[' in change.field else value}"
        raise BadInput(
            f"{change.field}: it cannot be changed in {run}{when}: {change.rule.why}.",
            f"Start a new run with it: lefleet run -c FILE {start}--name=NEW {shlex.quote(flag)}",
        )


_OTHER_RESULTS = ("tasks", "evaluate.env")
"""A run cannot start from one that was evaluated on other tasks, or elsewhere."""
