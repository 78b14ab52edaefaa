"""Scripted experts of LeRobot environments, by the type of the environment.

The package that registers an environment registers its expert beside it:

    import lefleet.experts

    def make_expert(env):
        return lambda observation: observation["environment_state"][:2] - observation["agent_pos"]

    lefleet.experts.register("my_env", make_expert)

`lefleet collect expert --env type my_env discover_packages_path my_package`, and runs with
`collect.source: expert`, then demonstrate with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

ChooseAction = Callable[[dict[str, Any]], Any]
"""An action for what the environment observes now: arrays by name, without a batch."""


class RegisteredExpert(NamedTuple):
    """How an environment is demonstrated in."""

    make: Callable[[Any], ChooseAction]
    columns: dict[str, tuple[str, ...]]


_EXPERTS: dict[str, RegisteredExpert] = {}


def register(
    env_type: str,
    make: Callable[[Any], ChooseAction],
    *,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Let `make` demonstrate in environments of this type.

    It is called at the start of each episode with the gym environment, without its wrappers, and
    returns the function that chooses the actions of this episode. `columns` names the columns of
    `action`, `observation.state` and `observation.environment_state` in datasets.
    """
    named = {key: tuple(names) for key, names in (columns or {}).items()}
    _EXPERTS[env_type] = RegisteredExpert(make, named)


def registered(env_type: str) -> RegisteredExpert | None:
    """The expert of this type of environment, if a package has registered one."""
    return _EXPERTS.get(env_type)
