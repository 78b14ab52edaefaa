"""Who is measured: for each stack its server module, its client, and whether its images are raw."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from benchmarks.serving.scene import Answer, Scene


class Client(Protocol):
    """One robot's connection."""

    def infer(self, scene: Scene) -> Answer: ...

    def close(self) -> None: ...


class Stack(NamedTuple):
    """Clients are imported where they are used: a robot's process holds only its own."""

    title: str
    server: str
    client: str
    arguments: tuple[str, ...] = ()
    is_raw_peer: bool = False

    def connect(self) -> Callable[[str], Client]:
        """A function from a server's address to a client; its libraries are loaded here."""
        module, _, name = self.client.partition(":")
        kind: Any = getattr(import_module(f"benchmarks.serving.{module}"), name)
        return lambda address: kind(address, *self.arguments)


STACKS = {
    "lerobot": Stack(
        "LeRobot async_inference, transport only",
        "lerobot_server",
        "lerobot_client:LerobotClient",
        is_raw_peer=True,
    ),
    "websocket": Stack(
        "websocket + MessagePack, raw",
        "websocket_server",
        "websocket_client:WebsocketClient",
        ("raw",),
        is_raw_peer=True,
    ),
    "websocket-resize": Stack(
        "websocket + MessagePack, resized to 224 by the client",
        "websocket_server",
        "websocket_client:WebsocketClient",
        ("resized",),
    ),
    "zeromq-npsave": Stack(
        "ZeroMQ, raw, np.save",
        "npsave_server",
        "npsave_client:NpsaveClient",
        is_raw_peer=True,
    ),
    "zeromq": Stack(
        "ZeroMQ, raw, no copies",
        "zeromq_server",
        "zeromq_client:ZeromqClient",
        ("raw",),
        is_raw_peer=True,
    ),
    "zeromq-jpeg": Stack(
        "ZeroMQ, JPEG",
        "zeromq_server",
        "zeromq_client:ZeromqClient",
        ("jpeg",),
    ),
    "lefleet": Stack("**LeFleet**", "lefleet_server", "lefleet_client:LefleetClient"),
}
OURS = "lefleet"
