"""What the constitution says of a rollout: whether it may begin, and the limits of its motors."""

import difflib
import logging
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from lerobot.robots import Robot, RobotConfig
from lerobot.rollout.configs import RolloutConfig
from lerobot.teleoperators import TeleoperatorConfig

from lefleet.constitution import (
    RolloutFacts,
    Rules,
    find,
    given,
    rules_for_grants,
)
from lefleet.constitution.active import WORKDIR
from lefleet.constitution.paths import is_pattern, matches
from lefleet.constitution.schema import MotorRules
from lefleet.edge.judge import GuardConfig
from lefleet.errors import BadInput, Denied

_LOG = logging.getLogger(__name__)


def facts_of(cfg: RolloutConfig) -> RolloutFacts:
    """What a config names, wherever it came from: flags, a file, or Python."""
    dataset = cfg.dataset
    named = (dataset.repo_id, str(dataset.root or "")) if dataset is not None else ()
    texts = {cfg.task: None, dataset.single_task if dataset is not None else "": None}
    weights = cfg.policy.pretrained_path if cfg.policy is not None else None
    return RolloutFacts(
        robot=type_names(cfg.robot),
        teleoperator=type_names(cfg.teleop) if cfg.teleop is not None else (),
        checkpoint=str(weights or ""),
        datasets=tuple(name for name in named if name),
        tasks=tuple(text for text in texts if text),
        uploads=bool(getattr(cfg, "uploads", False)),
    )


def type_names(config: RobotConfig | TeleoperatorConfig) -> tuple[str, ...]:
    """All names of a device's type. LeRobot registers some classes under two, and its configs know
    only one of them: a so101_follower calls itself so100_follower."""
    return _names_of(type(config))


def robot_names(robot: Robot) -> tuple[str, ...]:
    """All names of the type of a robot that was made already, whatever a config says of it."""
    config = getattr(robot, "config", None)
    return _names_of(type(config) if isinstance(config, RobotConfig) else robot.config_class)


def _names_of(kind: type[RobotConfig] | type[TeleoperatorConfig]) -> tuple[str, ...]:
    """A class that is not registered is known by its own name, so that rules can tell of it."""
    known = kind.get_known_choices()
    return tuple(name for name, one in known.items() if one is kind) or (kind.__name__,)


def require_allowed(cfg: RolloutConfig, robot: Robot | None = None) -> Rules:
    """The rules of this process, or those that a person's own rollout has; Denied where they do not
    allow it, or not the `robot` that replaces that of the config. Nothing is connected yet."""
    facts = facts_of(cfg)
    rules = given() or rules_for_grants(find(WORKDIR), facts.grants())
    rules.check_rollout(facts)
    if robot is not None:
        rules.check_rollout(RolloutFacts(robot=robot_names(robot)))
    _require_types(rules)
    return rules


def _require_types(rules: Rules) -> None:
    """Limits for a type that is misspelt would protect no robot."""
    # Registers LeRobot's own types, which a program that makes its config itself may lack.
    from lerobot.scripts import lerobot_rollout  # noqa: F401

    known = sorted(RobotConfig.get_known_choices())
    for name in rules.constitution.motors.robots:
        if not is_pattern(name) and name not in known:
            near = difflib.get_close_matches(name, known, n=3) or known
            raise Denied(
                f"motors.robots.{name}",
                "LeRobot knows no such type of robot, so the limits would protect nothing.",
                f"Write one of {', '.join(near)} in {rules.file}; or, for a package that is not "
                f"imported here, a pattern such as {name}*.",
            )


def tightened(
    guard: GuardConfig, rules: Rules, types: Collection[str], joints: Iterable[str]
) -> GuardConfig:
    """The guard with the tighter of its own limits and the constitution's, joint by joint.

    `types` are the names of the robot's type. Limits for all robots apply to the joints that this
    one has. Those for its type must name its joints: a misspelt one would leave a motor without its
    limit. A pattern stands for every joint that it matches.
    """
    for_all, for_type, known = rules.constitution.motors, rules.motors_of(types), sorted(joints)
    is_simulated = rules.constitution.robots.is_simulated(types, "robot")
    for name, motors in for_type.items():
        for field, named in (("limits", motors.limits), ("max_step", _steps(motors, ()))):
            _require_known(named, known, f"motors.robots.{name}.{field}", rules.file)
    general = {*for_all.limits, *_steps(for_all, ())}
    if missing := sorted(one for one in general if not _matching(one, known)):
        _LOG.log(
            logging.INFO if is_simulated else logging.WARNING,
            "Limits of the constitution for joints that the robot has not: %s. It has: %s.",
            ", ".join(missing),
            ", ".join(known),
        )
    limits, own, steps = dict(guard.limits), _steps(guard, known), _steps(guard, known)
    for motors in (for_all, *for_type.values()):
        for pattern, bounds in motors.limits.items():
            for joint in _matching(pattern, known):
                limits[joint] = _overlap(joint, limits.get(joint), bounds)
        for pattern, step in _steps(motors, known).items():
            for joint in _matching(pattern, known):
                steps[joint] = min(step, steps.get(joint, math.inf))
    return replace(guard, limits=limits, max_step=guard.max_step if steps == own else steps)


def _matching(pattern: str, joints: Iterable[str]) -> list[str]:
    return [joint for joint in joints if matches(joint, (pattern,))]


def _steps(config: GuardConfig | MotorRules, joints: Iterable[str]) -> dict[str, float]:
    """Largest steps by joint; one number is for all positions."""
    if isinstance(config.max_step, dict):
        return dict(config.max_step)
    return {joint: config.max_step for joint in joints if joint.endswith(".pos")}


def _overlap(
    joint: str, own: tuple[float, float] | None, rule: tuple[float, float]
) -> tuple[float, float]:
    if own is None:
        return rule
    low, high = max(own[0], rule[0]), min(own[1], rule[1])
    if low > high:
        raise BadInput(
            f"guard.limits: {joint} {list(own)} is outside of what the constitution allows, "
            f"{list(rule)}.",
            "Give limits within those.",
        )
    return low, high


def _require_known(names: Mapping[str, object], known: list[str], field: str, file: str) -> None:
    for joint in names:
        if not _matching(joint, known):
            near = difflib.get_close_matches(joint, known, n=1)
            meant = f"{near[0]!r}" if near else f"one of {', '.join(known)}"
            raise Denied(
                field,
                f"the robot has no joint {joint!r}, so the limit would protect nothing.",
                f"Write {meant} in {file}.",
            )
