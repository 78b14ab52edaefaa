"""Networks to run the same tests on: in memory, over a Zenoh router, and between Zenoh peers."""

import itertools
import json
import threading

import zenoh

from lefleet_client.testing import MemoryNetwork, MemoryTransport
from lefleet_client.transport import Tls, Transport, ZenohSettings, ZenohTransport
from lefleet_client.transport.settings import zenoh_config
from tests.client.transport.waiting import Log, bounded

FREE_PORT = "tcp/127.0.0.1:0"
# Says where it listens, and does not wait for others before it begins.
QUICK = {"adminspace/enabled": True, "scouting/delay": 0}


class Network:
    """Nodes that all reach each other; `close` ends them and sees that they have ended."""

    def __init__(self) -> None:
        self._nodes: list[Transport] = []
        self._names = itertools.count()

    def node(self) -> Transport:
        node = self._open()
        self._nodes.append(node)
        return node

    def settle(self) -> None:
        """Return when every node knows what every other has declared.

        A token is declared behind everything else, and news of one node keeps its order.
        """
        tokens, watches = [], []
        for receiver in self._nodes:
            key = f"test/settled/{next(self._names)}"
            tokens.append(receiver.announce(key))
            for sender in self._nodes:
                log = Log()
                watches.append(sender.watch(key, log.add))
                log.wait_for((key, True))
        for declared in (*watches, *tokens):
            declared.close()

    def close(self) -> None:
        for node in reversed(self._nodes):
            bounded(node.close)
        assert [
            thread for thread in threading.enumerate() if thread.name.startswith("memory")
        ] == []

    def _open(self) -> Transport:
        raise NotImplementedError


class InMemory(Network):
    def __init__(self) -> None:
        super().__init__()
        self._network = MemoryNetwork()

    def _open(self) -> Transport:
        return MemoryTransport(self._network)


class OverRouter(Network):
    """Clients of one router."""

    def __init__(self) -> None:
        super().__init__()
        self.router = Router(FREE_PORT)

    def _open(self) -> Transport:
        return ZenohTransport.open(ZenohSettings(connect=(self.router.endpoint,)))

    def close(self) -> None:
        super().close()
        self.router.close()


class BetweenPeers(Network):
    """Peers without a router, each connected to all before it."""

    def __init__(self) -> None:
        super().__init__()
        self._endpoints: list[str] = []

    def _open(self) -> Transport:
        settings = ZenohSettings(
            mode="peer",
            connect=tuple(self._endpoints),
            listen=(FREE_PORT,),
            extra=QUICK,
        )
        node = ZenohTransport.open(settings)
        self._endpoints.append(endpoint_of(node._session, "peer"))
        return node


class Router:
    """A Zenoh router in this process."""

    def __init__(self, endpoint: str, tls: Tls | None = None, **extra: object) -> None:
        settings = ZenohSettings(
            mode="router", listen=(endpoint,), tls=tls, extra={**QUICK, **extra}
        )
        self._session = zenoh.open(zenoh_config(settings))
        self.endpoint = endpoint_of(self._session, "router")

    def close(self) -> None:
        bounded(self._session.close)


def endpoint_of(session: zenoh.Session, mode: str) -> str:
    """Where a session listens that was given port 0: it says so itself, so no port is guessed."""
    (reply,) = session.get(f"@/{session.zid()}/{mode}")
    (locator,) = json.loads(reply.ok.payload.to_string())["locators"]
    return locator
