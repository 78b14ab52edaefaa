"""The constitution as a file: its fields, its mistakes, and where it is found."""

import hashlib
import math
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, field
from msgspec.structs import replace

from lefleet.constitution.paths import matches
from lefleet.errors import BadInput
from lefleet.records.border import Strict
from lefleet.records.fields import Positive

NAME = "constitution.yaml"
"""In a work folder."""
DEFAULT = "the constitution that comes with LeFleet"
_PACKAGED = "default.yaml"

Words = Annotated[str, Meta(min_length=1)]
Pattern = Annotated[str, Meta(min_length=1)]
"""A name, or one with * and ? in it."""
PositiveNumber = Annotated[float, Meta(gt=0.0, le=1e12)]
Bounds = tuple[float, float]


class ArgumentRule(Strict, frozen=True, kw_only=True):
    """Values that an argument may have. Without any field: all."""

    min: float | None = None
    """Smallest number."""
    max: float | None = None
    """Largest number."""
    one_of: tuple[str, ...] = ()
    """The only values."""


class CommandRule(Strict, frozen=True, kw_only=True):
    """Arguments that a program may be started with."""

    arguments: dict[Pattern, ArgumentRule | None] = field(default_factory=dict)
    """Keys of --key=value, and what their values may be."""
    positional: tuple[Pattern, ...] = ()
    """Arguments that are no --key=value. LeRobot's programs never have any; those of LeFleet are
    known and need not be listed."""


class RobotRules(Strict, frozen=True, kw_only=True):
    """Types of robots and teleoperators."""

    simulated: tuple[Pattern, ...] = ()
    """Types of robots that move nothing real. Any other type counts as hardware."""
    simulated_teleoperators: tuple[Pattern, ...] = ()
    """Types of teleoperators that have no motors. Any other type counts as hardware."""
    allowed: tuple[Pattern, ...] = ("*",)
    """Types of both that may be used where `real_hardware` is true."""

    def is_simulated(self, names: Collection[str], device: str) -> bool:
        """Whether a robot or teleoperator is listed under all names of its class."""
        listed = self.simulated if device == "robot" else self.simulated_teleoperators
        return bool(names) and all(matches(name, listed) for name in names)


class CapRules(Strict, frozen=True, kw_only=True):
    """Largest numbers; a field that is left out has no limit."""

    cycles: Positive | None = None
    """Cycles of a run."""
    steps: Positive | None = None
    """Steps of a training."""
    batch_size: Positive | None = None
    """Samples of a training step, episodes of a batch."""
    episodes_per_task: Positive | None = None
    """Episodes of a task in one stage, collected or evaluated; steps of a growth schedule too."""
    pairs: Positive | None = None
    """Pairs of a comparison."""
    workers: Positive | None = None
    """Processes of a stage, and of a training's data loader."""
    robots: Positive | None = None
    """Simulated robots of a profile."""
    wall_hours: PositiveNumber | None = None
    """A run's budgets.wall_hours, which must then be set."""
    device_hours: PositiveNumber | None = None
    """A run's budgets.device_hours, which must then be set."""
    llm_tokens: Positive | None = None
    """A run's budgets.llm_tokens, which must then be set if the run asks a language model."""


class TaskRules(Strict, frozen=True, kw_only=True):
    """What the text of a task may be, whoever proposed it."""

    forbidden_words: tuple[Words, ...] = ()
    """Words, or several words in a row, in any case."""
    max_length: Positive | None = None
    """Characters."""
    allowed: tuple[Pattern, ...] = ()
    """The only tasks. Empty: all that are not forbidden."""


class MotorRules(Strict, frozen=True, kw_only=True):
    """Limits of commands to motors; the guard of a robot takes them over."""

    limits: dict[Pattern, Bounds] = field(default_factory=dict)
    """Smallest and largest command by joint, for instance shoulder_pan.pos: [-90, 90]."""
    max_step: PositiveNumber | dict[Pattern, PositiveNumber] = field(default_factory=dict)
    """Largest change from one command to the next, by joint; one number: for all .pos."""


class AllMotorRules(MotorRules, frozen=True, kw_only=True):
    """Limits for every robot that has the joint, and for types of robots."""

    robots: dict[Pattern, MotorRules] = field(default_factory=dict)
    """By type of robot, in addition. Each joint named here must be one that the robot has."""


class Constitution(Strict, frozen=True, kw_only=True):
    """Rules that a person owns."""

    version: Literal[1]
    """Of this schema."""
    real_hardware: bool = False
    """Whether anything real may move."""
    own_config: bool = True
    """Allow also what a run's own config names when the run begins, or what a person types:
    environment, data, checkpoints, packages, LeRobot's flags, the command of `notify`. It never
    lifts real_hardware, caps, tasks, motors, or a range of an argument."""
    uploads: bool = False
    """Whether data may be sent to the hub, to wandb, to HF Jobs or to a webhook."""
    commands: dict[Pattern, CommandRule | None] = field(default_factory=dict)
    """Programs that may be started: MODULE of `python -m MODULE`, or the program as it is called.
    `python` stands for any other use of the interpreter."""
    environments: tuple[Pattern, ...] = ()
    """LeRobot environments by type; LeFleet's own is lefleet_metaworld."""
    robots: RobotRules = RobotRules()
    datasets: tuple[Pattern, ...] = ()
    """Hub ids or folders. What is in a run's own work folder is always allowed."""
    checkpoints: tuple[Pattern, ...] = ()
    """Hub ids or folders. What is in a run's own work folder is always allowed."""
    config_paths: tuple[Pattern, ...] = ()
    """Files that LeRobot's --config_path may read. Those of the run's own checkpoints are allowed,
    and what they say is judged like flags."""
    plugins: tuple[Pattern, ...] = ()
    """Packages that may be imported because a flag or a manifest names them."""
    variables: tuple[Pattern, ...] = ()
    """Environment variables that may be set for a program, beside those that it inherits."""
    caps: CapRules = CapRules()
    tasks: TaskRules = TaskRules()
    motors: AllMotorRules = AllMotorRules()


class ConstitutionSource(NamedTuple):
    """A constitution and where it comes from."""

    path: str
    """Empty: it comes with LeFleet."""
    constitution: Constitution


def find(workdir: Path, named: str = "") -> ConstitutionSource:
    """The file `named`, else that of the work folder, else the one that comes with LeFleet."""
    if named:
        path = Path(named).expanduser().absolute()
        return ConstitutionSource(str(path), read(path))
    path = workdir.absolute() / NAME
    if path.is_file() or path.is_symlink():
        return ConstitutionSource(str(path), read(path))
    return ConstitutionSource("", packaged())


def read(path: Path) -> Constitution:
    """The constitution in a file; BadInput names the field that is wrong.

    A field that the file leaves out is as in the constitution that comes with LeFleet: LeFleet's
    own programs, for instance, are those of this version.
    """
    from lefleet.records.config_file import read_fields

    fields = read_fields(path, "constitution", "docs/constitution.md")
    named = parse(fields, str(path))
    return replace(packaged(), **{name: getattr(named, name) for name in fields})


def parse(fields: dict[str, Any], source: str) -> Constitution:
    """The fields as a constitution; `source` names the file, for the error."""
    from lefleet.records.config_file import converted

    if "version" not in fields:
        raise BadInput(f"{source}: version is missing.", "Write version: 1.")
    if fields["version"] != 1 or isinstance(fields["version"], bool):
        raise BadInput(
            f"{source}: version: {fields['version']!r} is not known.",
            "This LeFleet reads version: 1.",
        )
    constitution = converted(fields, Constitution, source)
    _check(constitution, source)
    return constitution


def packaged() -> Constitution:
    """The constitution that comes with LeFleet."""
    import yaml

    return parse(yaml.safe_load(packaged_text()), DEFAULT)


def packaged_text() -> str:
    """Its file, with comments."""
    return Path(__file__).with_name(_PACKAGED).read_text(encoding="utf-8")


def digest_of(value: Any) -> str:
    """sha256 of a struct as canonical JSON: equal values have equal digests."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _check(constitution: Constitution, source: str) -> None:
    """What types alone cannot say."""
    for program, command in constitution.commands.items():
        for key, rule in (command or CommandRule()).arguments.items():
            _check_argument(rule, f"{source}: commands.{program}.arguments.{key}")
    motors = constitution.motors
    _check_motors(motors, f"{source}: motors")
    for robot, limits in motors.robots.items():
        _check_motors(limits, f"{source}: motors.robots.{robot}")


def _check_argument(rule: ArgumentRule | None, name: str) -> None:
    if rule is None:
        return
    bounds = [one for one in (rule.min, rule.max) if one is not None]
    if not all(math.isfinite(one) for one in bounds):
        raise BadInput(f"{name}: {bounds} is no range.", "Give numbers, or leave one side out.")
    if len(bounds) == 2 and bounds[0] > bounds[1]:
        raise BadInput(f"{name}: min {bounds[0]:g} is above max {bounds[1]:g}.", "Swap them.")
    if rule.one_of and bounds:
        raise BadInput(f"{name}: one_of and a range are both given.", "Keep one of them.")


def _check_motors(rules: MotorRules, place: str) -> None:
    for joint, (low, high) in rules.limits.items():
        name = f"{place}.limits.{joint}"
        if not (math.isfinite(low) and math.isfinite(high)):
            raise BadInput(f"{name}: [{low:g}, {high:g}] is no range.", "Give two finite numbers.")
        if low > high:
            raise BadInput(f"{name}: the smallest, {low:g}, is above {high:g}.", "Swap them.")
        if joint.endswith(".vel") and not low <= 0 <= high:
            raise BadInput(
                f"{name}: it must allow 0, which stops the joint; it is [{low:g}, {high:g}].",
                "Widen it to include 0.",
            )
