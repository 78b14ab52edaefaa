"""Rules in words: what they allow, and what differs between two of them."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from lefleet.constitution.checks import plain
from lefleet.constitution.rules import Rules
from lefleet.constitution.schema import (
    DEFAULT,
    ArgumentRule,
    CapRules,
    CommandRule,
    Constitution,
    MotorRules,
)

_LISTS = {
    "environments": "environment",
    "datasets": "dataset",
    "checkpoints": "checkpoint",
    "config_paths": "config file",
    "plugins": "package to import",
    "variables": "environment variable",
}
_SIMULATED = {
    "simulated": "simulated robot",
    "simulated_teleoperators": "simulated teleoperator",
}
_SWITCHES = {
    "real_hardware": ("nothing real may move", "real robots may move"),
    "own_config": (
        "only what is listed is allowed",
        "what a run's own config names, or a person types, is allowed too",
    ),
    "uploads": (
        "no data is sent to the hub, wandb, HF Jobs or a webhook, unless the own config says so",
        "data may be sent to the hub, wandb, HF Jobs or a webhook",
    ),
}


class Line(NamedTuple):
    """One thing that rules say, under the field that says it."""

    field: str
    words: str


class Difference(NamedTuple):
    """One thing that became allowed or forbidden."""

    field: str
    words: str
    is_looser: bool
    """Whether more is allowed than before."""


def explain(rules: Rules) -> list[Line]:
    """What rules allow, line by line."""
    one = rules.constitution
    lines = [Line("source", rules.source or DEFAULT)]
    for field, (off, on) in _SWITCHES.items():
        lines.append(Line(field, on if getattr(one, field) else off))
    lines.append(Line("commands", _joined(one.commands)))
    for program, command in one.commands.items():
        for key, rule in (command or CommandRule()).arguments.items():
            if words := _range_words(rule):
                lines.append(Line(f"commands.{program}", f"{key}: {words}"))
    for field in _LISTS:
        own = getattr(rules.grants, field, ())
        named = f"; named by the own config: {', '.join(own)}" if own else ""
        lines.append(Line(field, f"{_joined(getattr(one, field))}{named}"))
    if rules.grants.folders:
        words = f"data and checkpoints in {', '.join(rules.grants.folders)}; writes only there"
        lines.append(Line("own folders", words))
    lines += [Line("own flags", flag) for flag in rules.grants.flags]
    lines += [Line("own commands", " ".join(argv)) for argv in rules.grants.commands]
    for field in _SIMULATED:
        lines.append(Line(f"robots.{field}", _joined(getattr(one.robots, field))))
    if one.real_hardware:
        lines.append(Line("robots.allowed", _joined(one.robots.allowed)))
    lines += [Line(f"caps.{name}", _at_most(limit)) for name, limit in _caps(one.caps)]
    tasks = one.tasks
    lines.append(Line("tasks.forbidden_words", _joined(tasks.forbidden_words)))
    if tasks.max_length is not None:
        lines.append(Line("tasks.max_length", f"at most {tasks.max_length} characters"))
    if tasks.allowed:
        lines.append(Line("tasks.allowed", f"only {_joined(tasks.allowed)}"))
    for place, limits in _motors(one).items():
        lines.append(Line(place, limits.words))
    return lines


def differences(before: Rules, after: Rules) -> list[Difference]:
    """What became allowed or forbidden, in the order of the fields."""
    old, new = before.constitution, after.constitution
    found: list[Difference] = []
    for field, (off, on) in _SWITCHES.items():
        if getattr(old, field) != (is_on := getattr(new, field)):
            found.append(Difference(field, on if is_on else off, is_on))
    found += _commands(old.commands, new.commands)
    for field, what in _LISTS.items():
        own = (getattr(before.grants, field, ()), getattr(after.grants, field, ()))
        lists = ((*getattr(old, field), *own[0]), (*getattr(new, field), *own[1]))
        found += _lists(field, what, *lists)
    found += _lists("own flags", "flag", before.grants.flags, after.grants.flags)
    found += _lists("own folders", "folder", before.grants.folders, after.grants.folders)
    lines = [[" ".join(one) for one in rules.grants.commands] for rules in (before, after)]
    found += _lists("own commands", "command", *lines)
    for field, what in _SIMULATED.items():
        lists = (getattr(old.robots, field), getattr(new.robots, field))
        found += _lists(f"robots.{field}", what, *lists)
    found += _lists("robots.allowed", "type of robot", old.robots.allowed, new.robots.allowed)
    found += _numbers(old.caps, new.caps)
    # A word that was taken off the list is allowed.
    found += _lists(
        "tasks.forbidden_words",
        "word in tasks",
        new.tasks.forbidden_words,
        old.tasks.forbidden_words,
    )
    lengths = (old.tasks.max_length, new.tasks.max_length)
    found += _number("tasks.max_length", *lengths)
    found += _allowed_tasks(old.tasks.allowed, new.tasks.allowed)
    return found + list(_motor_differences(old, new))


def _lists(field: str, what: str, old: Iterable[str], new: Iterable[str]) -> Iterator[Difference]:
    before, after = dict.fromkeys(old), dict.fromkeys(new)
    for name in after:
        if name not in before:
            yield Difference(field, f"{what} {name} is now allowed", is_looser=True)
    for name in before:
        if name not in after:
            yield Difference(field, f"{what} {name} is no longer allowed", is_looser=False)


def _allowed_tasks(old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[Difference]:
    """An empty list allows all."""
    if old and new:
        yield from _lists("tasks.allowed", "task", old, new)
    elif new:
        yield Difference("tasks.allowed", f"only {_joined(new)}, before all tasks", is_looser=False)
    elif old:
        yield Difference("tasks.allowed", f"all tasks, before only {_joined(old)}", is_looser=True)


def _commands(
    old: Mapping[str, CommandRule | None], new: Mapping[str, CommandRule | None]
) -> Iterator[Difference]:
    yield from _lists("commands", "program", old, new)
    for program in old.keys() & new.keys():
        was, now = old[program] or CommandRule(), new[program] or CommandRule()
        place = f"commands.{program}"
        yield from _lists(f"{place}.arguments", "argument", was.arguments, now.arguments)
        yield from _lists(f"{place}.positional", "argument", was.positional, now.positional)
        for key in was.arguments.keys() & now.arguments.keys():
            one, other = was.arguments[key], now.arguments[key]
            before, after = (_range_words(rule) or "anything" for rule in (one, other))
            if before != after:
                words = f"values may be {after}, before {before}"
                yield Difference(f"{place}.arguments.{key}", words, _is_wider(other, one))


def _is_wider(new: ArgumentRule | None, old: ArgumentRule | None) -> bool:
    """Whether `new` allows a value that `old` does not."""
    one, other = new or ArgumentRule(), old or ArgumentRule()
    if one.one_of or other.one_of:
        return not one.one_of or not set(one.one_of) <= set(other.one_of or one.one_of)
    low, high = _numbers_of(one)
    return low < _numbers_of(other)[0] or high > _numbers_of(other)[1]


def _numbers_of(rule: ArgumentRule) -> tuple[float, float]:
    return (
        -math.inf if rule.min is None else rule.min,
        math.inf if rule.max is None else rule.max,
    )


def _numbers(old: CapRules, new: CapRules) -> Iterator[Difference]:
    for name in old.__struct_fields__:
        yield from _number(f"caps.{name}", getattr(old, name), getattr(new, name))


def _number(field: str, old: float | None, new: float | None) -> Iterator[Difference]:
    if old != new:
        is_looser = new is None or (old is not None and new > old)
        yield Difference(field, f"{_at_most(new)}, before {_at_most(old)}", is_looser)


def _at_most(number: float | None) -> str:
    return "no limit" if number is None else f"at most {plain(number)}"


class _Limit(NamedTuple):
    words: str
    low: float
    high: float


def _motors(one: Constitution) -> dict[str, _Limit]:
    """Every limit of a motor under its field."""
    found: dict[str, _Limit] = {}
    places: list[tuple[str, MotorRules]] = [("motors", one.motors)]
    places += [(f"motors.robots.{name}", rules) for name, rules in one.motors.robots.items()]
    for place, rules in places:
        for joint, (low, high) in rules.limits.items():
            found[f"{place}.limits.{joint}"] = _Limit(f"{low:g} to {high:g}", low, high)
        steps = rules.max_step if isinstance(rules.max_step, dict) else {"*.pos": rules.max_step}
        for joint, step in steps.items():
            found[f"{place}.max_step.{joint}"] = _Limit(f"steps of at most {step:g}", -step, step)
    return found


def _motor_differences(old: Constitution, new: Constitution) -> Iterator[Difference]:
    before, after = _motors(old), _motors(new)
    for place in sorted(before.keys() | after.keys()):
        was, now = before.get(place), after.get(place)
        if was == now:
            continue
        if now is None:
            yield Difference(place, "no limit any more", is_looser=True)
        elif was is None:
            yield Difference(place, f"{now.words}, before no limit", is_looser=False)
        else:
            words = f"{now.words}, before {was.words}"
            yield Difference(place, words, now.low < was.low or now.high > was.high)


def _caps(caps: CapRules) -> list[tuple[str, float]]:
    values = ((name, getattr(caps, name)) for name in caps.__struct_fields__)
    return [(name, value) for name, value in values if value is not None]


def _range_words(rule: ArgumentRule | None) -> str:
    """Empty: anything."""
    if rule is None or rule == ArgumentRule():
        return ""
    if rule.one_of:
        return f"one of {', '.join(rule.one_of)}"
    low = "" if rule.min is None else f"at least {rule.min:g}"
    high = "" if rule.max is None else f"at most {rule.max:g}"
    return " and ".join(filter(None, (low, high)))


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
