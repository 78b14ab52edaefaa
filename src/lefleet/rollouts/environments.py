"""Environments of LeRobot by their flags: made with LeRobot's own factory, and described.

`make_environment` is the one place that turns flags into an environment. What is wrong with them is
BadInput that names the flag.
"""

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from difflib import get_close_matches
from io import StringIO
from typing import TYPE_CHECKING, Any

from lefleet.errors import BadInput, LeFleetError
from lefleet.experts import registered
from lefleet.rollouts.messages import EnvironmentDescription

if TYPE_CHECKING:
    from lefleet.rollouts.gym_world import GymWorld

DISCOVER = "discover_packages_path"
"""The flag that names a package to import: it registers environments."""


class Environment:
    """An environment of LeRobot: its config, and as many worlds of its tasks as are asked for."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def worlds(self) -> "dict[str, GymWorld]":
        """A new world of every task, by the names that lerobot-eval gives them in its results."""
        from lefleet.rollouts.gym_world import GymWorld

        vectors = self._vectors()
        with _explained(self.config.type):
            observed, _ = self.processors(None)
            how: dict[str, Any] = {
                "kind": self.config.type,
                "fps": int(self.config.fps),
                "observed": observed,
            }
            return {name: GymWorld(vector, **how) for name, vector in vectors.items()}

    def processors(self, policy_config: Any) -> tuple[Any, Any]:
        """LeRobot's pipelines between this environment and a policy: observations, actions."""
        from lerobot.envs.factory import make_env_pre_post_processors

        before, after = make_env_pre_post_processors(self.config, policy_config)
        return before, after

    def describe(self) -> EnvironmentDescription:
        """What it observes, how it is acted in, and its tasks; BadInput where policies cannot."""
        vectors = self._vectors()
        try:
            with _explained(self.config.type):
                return _described(self, vectors)
        finally:
            for vector in vectors.values():
                vector.close()

    def _vectors(self) -> dict[str, Any]:
        """A vector environment with one place for every task."""
        from lerobot.envs.factory import make_env

        # Some environments print while they are made, and stdout may be a command's JSON.
        with _explained(self.config.type), redirect_stdout(sys.stderr):
            made = make_env(self.config, n_envs=1)
            return {
                f"{group}-{number}": vector
                for group, tasks in made.items()
                for number, vector in tasks.items()
            }


def make_environment(flags: Mapping[str, str]) -> Environment:
    """The environment of these flags, as `--env.NAME=VALUE` of LeRobot's programs; BadInput."""
    from lerobot.envs.configs import EnvConfig
    from lerobot.utils.import_utils import register_third_party_plugins

    # Chooses how MuJoCo renders, before an environment imports it.
    import lefleet.sim  # noqa: F401

    given = dict(flags)
    register_third_party_plugins()
    if package := given.pop(DISCOVER, ""):
        _discover(package)
    if not given.get("type"):
        raise BadInput("env.type: it is missing.", "Name a LeRobot environment, such as pusht.")
    known = EnvConfig.get_known_choices()
    kind = known.get(given["type"])
    if kind is None:
        raise _unknown(given["type"], sorted(known), package)
    fields = {field.name for field in dataclasses.fields(kind)}
    for name in given:
        if name.partition(".")[0] not in fields | {"type"}:
            raise _unknown_flag(name, given["type"], sorted(fields))
    return Environment(_parse(given))


def describe_environment(flags: Mapping[str, str]) -> EnvironmentDescription:
    """What an environment offers to policies; BadInput with the remedy where it cannot be made."""
    return make_environment(flags).describe()


def _discover(package: str) -> None:
    from lerobot.configs.parser import load_plugin

    try:
        load_plugin(package)
    except Exception as error:
        # A package may raise anything while it is imported.
        cause = error.__cause__ or error
        raise BadInput(
            f"env.{DISCOVER}: {package} cannot be imported ({type(cause).__name__}: {cause}).",
            "Install the package, or set PYTHONPATH to the folder that contains it.",
        ) from error


def _unknown(name: str, known: list[str], package: str) -> BadInput:
    near = get_close_matches(name, known, n=3)
    what = f"Did you mean {' or '.join(near)}?" if near else f"LeRobot has {', '.join(known)}."
    where = (
        f"{package} does not register it."
        if package
        else f"An environment of your own needs {DISCOVER}, the package that registers it."
    )
    return BadInput(f"env.type: no environment is called {name!r}.", f"{what} {where}")


def _unknown_flag(name: str, kind: str, fields: list[str]) -> BadInput:
    near = get_close_matches(name, fields, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"It has {', '.join(fields)}."
    return BadInput(f"env.{name}: {kind} has no such flag.", hint)


def _parse(flags: Mapping[str, str]) -> Any:
    """LeRobot's parser, which makes numbers and lists of texts."""
    import draccus
    from lerobot.envs.configs import EnvConfig

    @dataclasses.dataclass
    class Flags:
        env: EnvConfig

    complaints = StringIO()
    try:
        with redirect_stderr(complaints):
            argv = [f"--env.{name}={value}" for name, value in flags.items()]
            return draccus.parse(config_class=Flags, args=argv).env
    except (Exception, SystemExit) as error:
        # The parser exits with a page of help, and an environment's own checks may raise anything.
        said = complaints.getvalue().strip().splitlines()
        reason = " ".join(str(error).split()) if isinstance(error, Exception) else said[-1]
        raise BadInput(f"env: the flags of {flags['type']} are wrong: {reason}.") from error


@contextmanager
def _explained(kind: str) -> Iterator[None]:
    """Whatever an environment raises while it is made, as BadInput."""
    try:
        yield
    except LeFleetError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or (error.__cause__ and getattr(error.__cause__, "name", "")) or ""
        raise BadInput(
            f"env.type: {kind} needs the package {missing or 'of its simulation'}, which is not "
            "installed.",
            "Install the package that it comes in, into the environment of this program.",
        ) from error
    except Exception as error:
        reason = " ".join(str(error).split())
        raise BadInput(
            f"env: {kind} cannot be made ({type(error).__name__}: {reason}).",
            "Check its flags and what its simulation needs, such as files of the hub or OpenGL.",
        ) from error


def _described(environment: Environment, vectors: Mapping[str, Any]) -> EnvironmentDescription:
    from gymnasium.vector.utils import create_empty_array
    from lerobot.envs.utils import preprocess_observation

    from lefleet.rollouts.gym_world import LISTED_STATES, instruction_of

    kind = environment.config.type
    if not vectors:
        raise BadInput(f"env: {kind} has no task.", "Name one with env.task.")
    vector = next(iter(vectors.values()))
    empty = create_empty_array(vector.single_observation_space, n=1)
    if not isinstance(empty, Mapping):
        raise BadInput(
            f"env: {kind} observes a bare array; LeRobot's policies need named ones.",
            "Observe a dict of agent_pos, environment_state and pixels; PushT: another obs_type.",
        )
    for name, one in vectors.items():
        if not _has(one, "_max_episode_steps"):
            raise BadInput(
                f"env: {name} does not say when an episode ends.",
                "Give the environment an attribute _max_episode_steps, or register it with gym's "
                "max_episode_steps.",
            )
    observed = preprocess_observation(dict(empty))
    before, _ = environment.processors(None)
    observed = before(observed | {"task": [instruction_of(vector)]})
    expert = registered(kind)
    states = vector.call(LISTED_STATES)[0] if _has(vector, LISTED_STATES) else None
    return EnvironmentDescription(
        type=kind,
        tasks={name: instruction_of(one) for name, one in vectors.items()},
        steps={name: int(one.call("_max_episode_steps")[0]) for name, one in vectors.items()},
        fps=int(environment.config.fps),
        observations={
            key: tuple(value.shape[1:])
            for key, value in observed.items()
            if hasattr(value, "shape") and key.startswith("observation.")
        },
        action=int(vector.single_action_space.shape[0]),
        initial_states=0 if states is None else len(states),
        has_expert=expert is not None,
        columns=dict(expert.columns) if expert else {},
    )


def _has(vector: Any, name: str) -> bool:
    return bool(vector.envs[0].has_wrapper_attr(name))
