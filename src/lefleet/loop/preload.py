"""What the stages of a run import, imported once by its controller, which then forks them.

Not on a GPU, where a training takes so long that imports do not matter and a library that touches
the device on import would break its forks; and not for runs that may need the hub, as another
environment than LeFleet's may, because libraries read on import whether they may use the network.
"""

import gc
import logging
import os
import sys
from importlib import import_module

from lefleet.process import allow_forks, obstacle
from lefleet.records import ExpertGrowth, RunConfig
from lefleet.stages.lerobot_train import needs_no_hub, training_environment
from lefleet.stages.progress import LOADING, Progress
from lefleet.stages.references import is_hub_id

_LOG = logging.getLogger(__name__)
NOTE = "---"
"""Begins a line of the controller's log that is no reason for its exit."""
_MODULES = (
    "lefleet.sim",
    "torch",
    "metaworld.env_dict",
    "metaworld.policies",
    "torchvision",
    "lerobot.configs",
    "lerobot.policies.factory",
    "lefleet.rollouts.policy",
    "lefleet.rollouts.worker",
    "lefleet.compat.train",
    "lefleet.stages.datasets",
    "lefleet.stages.collect",
    "lefleet.stages.train",
    "lefleet.stages.compare",
    "lefleet.stages.improve",
    "datasets.io.parquet",
)


class Preload:
    """Imports module by module, so that the controller can look at its stage in between.

    The first stage does not wait for it: it imports what it needs itself, on another core. A module
    that cannot be imported ends it: the stage that needs the module says what is wrong. The log
    names each module before it is imported, as an import may take the controller down.
    """

    def __init__(self, config: RunConfig, *, may_fork: bool) -> None:
        self._left: list[str] = []
        self._is_begun = False
        if not may_fork or not forks_stages(config):
            return
        if _is_hindered():
            return
        allow_forks()
        for rung in config.ladder:
            uses_wandb = "wandb" in config.track
            os.environ.update(training_environment(rung.policy_type, wandb=uses_wandb))
        self._left += modules_of(config)

    def import_next(self) -> bool:
        """Import one module; False where none was left."""
        if not self._left:
            return False
        self._is_begun, name = True, self._left.pop(0)
        sys.stderr.write(f"{NOTE} importing {name}\n")
        try:
            import_module(name)
        except (Exception, SystemExit):  # noqa: BLE001 - an import may raise anything
            _LOG.exception("%s could not be imported; stages import what they need.", name)
            self._left = []
        if not self._left:
            # Forks then leave this memory shared.
            gc.freeze()
            # An import may have started threads.
            _is_hindered()
        return True

    def finish(self, progress: Progress) -> None:
        """Import what is left, if some are imported."""
        if self._is_begun and self._left:
            progress(LOADING)
            while self.import_next():
                pass


def _is_hindered() -> bool:
    """Whether this process cannot be forked; the log says why."""
    if why := obstacle():
        _LOG.warning("Stages are started as new programs, which takes longer: %s.", why)
    return bool(why)


def modules_of(config: RunConfig) -> list[str]:
    """What the stages of a run import, in small portions."""
    types = sorted({rung.policy_type for rung in config.ladder})
    return [*_MODULES, *(f"lerobot.policies.{name}.modeling_{name}" for name in types)]


def forks_stages(config: RunConfig) -> bool:
    """Whether every stage of the run works on this machine's CPU, with what is on this machine."""
    is_local = isinstance(config.collect, ExpertGrowth) or bool(config.collect.root)
    is_local = is_local and not config.evaluate.env
    rungs = all(needs_no_hub(one.policy_type) and not is_hub_id(one.init) for one in config.ladder)
    return config.executor.is_here and config.device == "cpu" and is_local and rungs
