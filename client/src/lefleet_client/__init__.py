"""The robot's side of LeFleet: a small package that a robot can install alone.

    wire       the messages of robots and policy servers, as bytes
    transport  how bytes get from one to the other
    remote     a policy that runs elsewhere: RemotePolicy
    stream     its actions at a robot's control rate, through network faults: ActionStream
    testing    a network inside one process, for tests of programs that use a transport

`stream` imports `remote`, `remote` imports `transport` and `wire`, `transport` imports `wire`,
never the reverse. None of them imports `testing`. lefleet depends on this package, and nothing here
may import lefleet, torch or lerobot. Importing the package itself loads none of its folders; they
are loaded when one of its names is first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lefleet_client.remote import RemoteError, RemotePolicy, RobotFeatures

__version__ = "0.1.0"
__all__ = ["RemoteError", "RemotePolicy", "RobotFeatures"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(importlib.import_module("lefleet_client.remote"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
