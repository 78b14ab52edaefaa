"""Check single things by the rules: names, numbers, task texts, robots.

Each method returns nothing, or raises Denied with the field of the constitution, the reason in
plain words, and what helps. Pure, except that links of folders are followed, and configs
of adapters are read.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from lefleet.constitution.grants import OWN_SIMULATION, Grants
from lefleet.constitution.paths import is_inside, is_listed, is_own, is_pattern, matches
from lefleet.constitution.schema import ArgumentRule, Constitution, TaskRules
from lefleet.errors import Denied

_FALSE = frozenset({"", "false", "no", "off", "0", "null", "none", "~"})
_MANIPULATOR = "gym_manipulator"
"""LeRobot's environment around a robot."""
_ADAPTER = "adapter_config.json"
"""In the folder of an adapter."""
_DEVICES = ("robot", "teleop", "teleoperator")


class _Adapter(msgspec.Struct):
    base_model_name_or_path: str | None = None


class Checks:
    """One constitution and what is granted beside it; `file` is where a person would edit it."""

    def __init__(self, constitution: Constitution, grants: Grants, file: str) -> None:
        self.constitution = constitution
        self.grants = grants
        self.file = file

    def environment(self, name: str) -> None:
        self._listed("environments", name, "environment")

    def checkpoint(self, name: str) -> None:
        """Weights; for an adapter in a folder here also those that it is loaded onto. Whoever names
        an adapter names these too."""
        seen: set[str] = set()
        while name and name not in seen and name not in self.grants.checkpoints:
            seen.add(name)
            if not is_own(name, self.grants.folders):
                self._listed_path("checkpoints", name, "checkpoint")
            name = base_of(name)

    def dataset(self, name: str) -> None:
        if name and not is_own(name, self.grants.folders):
            self._listed_path("datasets", name, "dataset")

    def config_path(self, name: str) -> None:
        if not is_own(name, self.grants.folders):
            self._listed_path("config_paths", name, "config file")

    def data(self, repo_id: str, root: str) -> None:
        """A dataset by its folder; also by its hub id where LeRobot would download it."""
        self.dataset(root)
        if not root or not (Path(root).expanduser() / "meta" / "info.json").is_file():
            self.dataset(repo_id)

    def plugin(self, name: str) -> None:
        self._listed("plugins", name, "package to import")

    def output(self, name: str) -> None:
        """A program writes only to the folders of its run."""
        if not is_inside(name, self.grants.folders):
            where = ", ".join(self.grants.folders) or "a folder that it was given"
            raise Denied(
                "commands",
                f"a program would write to {name}; it may write to {where}.",
                "Leave output_dir to LeFleet.",
            )

    def cap(self, field: str, number: float, what: str) -> None:
        limit = getattr(self.constitution.caps, field)
        if limit is not None and number > limit:
            raise Denied(
                f"caps.{field}",
                f"{what} is {plain(number)}, above the limit of {plain(limit)}.",
                f"Ask for at most {plain(limit)}, or raise caps.{field} in {self.file}.",
            )

    def budget(self, field: str, number: float) -> None:
        """A budget of 0 is none, so where there is a cap it must be set."""
        limit = getattr(self.constitution.caps, field)
        if limit is not None and not 0 < number <= limit:
            said = f"is {plain(number)}" if number else "is not set"
            raise Denied(
                f"caps.{field}",
                f"budgets.{field} {said}; at most {plain(limit)} is allowed.",
                f"Set budgets.{field} to {plain(limit)} or less, or change caps.{field} in "
                f"{self.file}.",
            )

    def tasks(self, texts: Iterable[str]) -> None:
        """Tasks by name or text; of the simulation's own both, and every member of a set."""
        # Not at the top: the simulation chooses how to draw when it is imported.
        from lefleet.sim.tasks import TASK_SETS, TASKS

        rules = self.constitution.tasks
        members = [one for text in texts for one in TASK_SETS.get(text.lower(), (text,))]
        for name in dict.fromkeys(members):
            known = TASKS.get(name.removesuffix("-v3"))
            self._length(name, rules)
            for text in (name, known.instruction) if known else (name,):
                self._words(text, rules)
            if rules.allowed and not matches(known.name if known else name, rules.allowed):
                raise Denied(
                    "tasks.allowed",
                    f"the task {_shown(name)!r} is not among those that are allowed.",
                    f"Add it to tasks.allowed in {self.file}.",
                )

    def robot(self, *names: str, device: str = "robot") -> None:
        """A type of robot or teleoperator, by all its names, before it is connected."""
        rules = self.constitution.robots
        if rules.is_simulated(names, device):
            return
        field = "simulated" if device == "robot" else "simulated_teleoperators"
        kind = " alias ".join(names)
        if not self.constitution.real_hardware:
            raise Denied(
                "real_hardware",
                f"{device} type {kind} is real hardware, and nothing real may move.",
                f"If it may: set real_hardware: true in {self.file}. If it is a simulation: add "
                f"{' and '.join(names)} to robots.{field} there.",
            )
        if not any(matches(name, rules.allowed) for name in names):
            raise Denied(
                "robots.allowed",
                f"{device} type {kind} is not among {_listed_words(rules.allowed)}.",
                f"Add {names[0]} to robots.allowed in {self.file}.",
            )

    def upload(self, what: str, *, is_granted: bool) -> None:
        if not self.constitution.uploads and not is_granted:
            raise Denied(
                "uploads",
                f"{what} would send data to another machine.",
                f"Leave it out, or set uploads: true in {self.file}.",
            )

    def variables(self, names: Iterable[str]) -> None:
        for name in names:
            if not name.startswith("LEFLEET_") and not matches(name, self.constitution.variables):
                raise Denied(
                    "variables",
                    f"the environment variable {name} may not be set for a program.",
                    f"Add it to variables in {self.file}.",
                )

    def device(self, name: str) -> None:
        """Of a training: the other GPUs are hidden from it with a variable."""
        self.variables(("CUDA_VISIBLE_DEVICES",) if ":" in name else ())

    def argument(self, program: str, key: str, value: str, *, is_key_known: bool) -> None:
        """A flag of a program: its key must be listed or granted, its value within the range.

        `is_key_known` for content of a file that lists all settings, which need no listing here.
        """
        command = rule_of(program, self.constitution.commands)
        arguments = command.arguments if command else {}
        rules = [arguments[key]] if key in arguments else []
        rules += [arguments[one] for one in arguments if is_pattern(one) and matches(key, (one,))]
        for rule in rules:
            self._within(program, key, value, rule)
        if not rules and not is_key_known and f"--{key}={value}" not in self.grants.flags:
            raise Denied(
                f"commands.{program}.arguments",
                f"--{key}={value} is neither listed nor named by the run's own config.",
                f"Leave it out, or add {key} to commands.{program}.arguments in {self.file}.",
            )

    def _within(self, program: str, key: str, value: str, rule: ArgumentRule | None) -> None:
        if rule is None or rule == ArgumentRule():
            return
        where = f"commands.{program}.arguments.{key}"
        remedy = f"Change the value, or {where} in {self.file}."
        if rule.one_of:
            if value not in rule.one_of:
                raise Denied(
                    where, f"--{key} is {value}; allowed is {_listed_words(rule.one_of)}.", remedy
                )
            return
        low = float("-inf") if rule.min is None else rule.min
        high = float("inf") if rule.max is None else rule.max
        try:
            is_within = low <= float(value) <= high
        except ValueError:
            is_within = False
        if not is_within:
            raise Denied(where, f"--{key} is {value}; allowed is {low:g} to {high:g}.", remedy)

    def _length(self, text: str, rules: TaskRules) -> None:
        if rules.max_length is not None and len(text) > rules.max_length:
            raise Denied(
                "tasks.max_length",
                f"the task {_shown(text)!r} has {len(text)} characters, at most {rules.max_length} "
                "are allowed.",
                f"Shorten it, or raise tasks.max_length in {self.file}.",
            )

    def _words(self, text: str, rules: TaskRules) -> None:
        said = f" {' '.join(words_of(text))} "
        for forbidden in rules.forbidden_words:
            if (words := words_of(forbidden)) and f" {' '.join(words)} " in said:
                raise Denied(
                    "tasks.forbidden_words",
                    f"the task {_shown(text)!r} contains {forbidden!r}.",
                    f"Name another task, or change tasks.forbidden_words in {self.file}.",
                )

    def _listed(self, field: str, name: str, what: str) -> None:
        if not matches(name, getattr(self.constitution, field)) and name not in getattr(
            self.grants, field
        ):
            self._refuse(field, name, what)

    def _listed_path(self, field: str, name: str, what: str) -> None:
        listed = (*getattr(self.constitution, field), *getattr(self.grants, field))
        if not is_listed(name, listed):
            self._refuse(field, name, what)

    def _refuse(self, field: str, name: str, what: str) -> None:
        own = " nor named by the run's own config" if self.constitution.own_config else ""
        neither = "is neither listed" if own else "is not listed"
        raise Denied(
            field, f"the {what} {name} {neither}{own}.", f"Add it to {field} in {self.file}."
        )


def base_of(checkpoint: str) -> str:
    """What the adapter in a folder names as its base; empty where the folder has none."""
    file = Path(checkpoint).expanduser() / _ADAPTER
    if not file.is_file():
        return ""
    try:
        base = msgspec.json.decode(file.read_bytes(), type=_Adapter).base_model_name_or_path
    except (OSError, msgspec.MsgspecError) as error:
        raise Denied(
            "checkpoints",
            f"{file} does not say which checkpoint it adapts: {error}.",
            "Repair it, or name another checkpoint.",
        ) from error
    return base or ""


def rule_of[T](name: str, rules: dict[str, T]) -> T | None:
    """The rule of that name, else of the first pattern that matches it."""
    if name in rules:
        return rules[name]
    return next((rule for pattern, rule in rules.items() if matches(name, (pattern,))), None)


def is_on(value: str) -> bool:
    """Whether a flag's value switches something on; what is not known to be off counts as on."""
    return value.strip().strip("'\"").lower() not in _FALSE


def devices_of(flags: dict[str, str], section: str) -> list[tuple[str, str]]:
    """Robots and teleoperators that the flags of a section name, as device and type.

    A device whose type cannot be read, as a mapping or a file in place of fields, has its text as
    its type: no list knows it.
    """
    found = {}
    for key, value in flags.items():
        parts = key.split(".")
        if section and parts[0] != section:
            continue
        for place, part in enumerate(parts):
            if part not in _DEVICES:
                continue
            name = ".".join(parts[: place + 1])
            if parts[place + 1 :] == ["type"]:
                found[name] = value
            elif place + 1 == len(parts):
                # Simulations have a field for the model of their arm, which is a plain name.
                is_model = section == "env" and value.isidentifier()
                is_model = is_model and flags.get("env.type") != _MANIPULATOR
                if is_on(value) and not is_model:
                    found[name] = value
            else:
                found.setdefault(name, "unknown")
    devices = [(name.rpartition(".")[2], kind) for name, kind in found.items()]
    if flags.get(f"{section}.type") == _MANIPULATOR and not any(
        device == "robot" for device, _ in devices
    ):
        devices.append(("robot", _MANIPULATOR))
    return devices


def environment_of(fields: dict[str, str]) -> str:
    """Type of the environment that a request's `env` names."""
    return fields.get("type", OWN_SIMULATION)


def _shown(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"


def words_of(text: str) -> list[str]:
    """Words in lower case, without accents and marks that cannot be seen, in one form of each
    letter."""
    letters = unicodedata.normalize("NFKD", text)
    visible = "".join(one for one in letters if unicodedata.category(one) not in ("Cf", "Mn"))
    return "".join(one if one.isalnum() else " " for one in visible.casefold()).split()


def plain(number: float) -> str:
    """A number as a person writes it."""
    return str(int(number)) if number == int(number) else f"{number:g}"


def _listed_words(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"
