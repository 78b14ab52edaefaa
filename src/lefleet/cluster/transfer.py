"""The variables that a process on another node gets from the one that asked for it.

A node's own environment comes from its `ray start`: whatever that shell had. So everything that a
stage depends on is sent along. Keys and tokens are not: what is sent lies in the stage's folder.
"""

import os
import re
from collections.abc import Mapping

from lefleet.constitution.active import RULES_VARIABLE, handed_down
from lefleet.process import child_environment

_TAKEN_AWAY = re.compile(r"LEFLEET_(?!CLUSTER)\w+|PYTHON(?!HOME)\w*")
_SENT = re.compile(
    rf"{_TAKEN_AWAY.pattern}|HF_\w+|MUJOCO_GL|PYOPENGL_PLATFORM|WANDB_MODE"
    r"|(OMP|MKL|OPENBLAS)_NUM_THREADS|TOKENIZERS_PARALLELISM|JE_ARROW_MALLOC_CONF"
)
_SECRET = re.compile(r"_(TOKEN|KEY|SECRET|PASSWORD)(_|$)")


def travelling(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of `environment` that are sent to another node."""
    return {
        name: value
        for name, value in environment.items()
        if _SENT.fullmatch(name) and not _SECRET.search(name)
    }


def body_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Of a child of this process that starts on another node, with this process's rules."""
    variables = travelling(child_environment(extra))
    variables.pop(RULES_VARIABLE, None)
    return variables | handed_down()


def settle_in(environment: Mapping[str, str]) -> None:
    """Make these the variables of this process. Of the node's own shell, what LeFleet and Python
    read is taken away; a cache folder or a graphics setting may be the node's own."""
    for name in [name for name in os.environ if _TAKEN_AWAY.fullmatch(name)]:
        del os.environ[name]
    os.environ.update(environment)
