"""A network with certificates and access lists: over a router, and at a server that listens."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from lefleet.certs.access import access_control, read_access
from lefleet.certs.authority import Authority
from lefleet_client import wire
from lefleet_client.transport import Declared, Tls, Transport, ZenohSettings, ZenohTransport
from tests.client.remote.scripted import ScriptedServer
from tests.client.transport.networks import QUICK, Router, endpoint_of
from tests.client.transport.waiting import LONG_S, Log, eventually

FREE_TLS_PORT = "tls/127.0.0.1:0"
SHORT_S = 0.3
"""Nothing is answered that is denied, so questions end with their time-out."""
SERVERS = wire.ServiceKeys("lerobot/act", "main", "fold")
A = SERVERS.server("a")
HOLDERS = (
    ("server", "hub"),
    ("server", "a"),
    ("server", "b"),
    ("robot", "arm"),
    ("robot", "leg"),
    ("robot", "sold"),
    ("operator", "jo"),
)


def make_certificates(folder: Path) -> None:
    """Everybody's; that of robot-sold is revoked."""
    now = datetime.now(UTC)
    Authority.create(folder, 30, now)
    with Authority(folder, now) as authority:
        for role, name in HOLDERS:
            authority.issue(role, name, ["localhost"], 20)
        authority.revoke("sold")


class Fleet:
    """The server `a`, and nodes by the name of their certificate."""

    def __init__(
        self,
        folder: Path,
        endpoint: str,
        server_node: ZenohTransport,
        stack: ExitStack,
        *,
        is_routed: bool,
    ) -> None:
        self._folder = folder
        self._stack = stack
        self.endpoint = endpoint
        self.server_node = server_node
        self.server = ScriptedServer(server_node)
        self.is_routed = is_routed

    def tls(self, holder: str) -> Tls:
        return Tls.folder(self._folder / holder)

    def node(self, holder: str, mode: str = "client") -> ZenohTransport:
        settings = ZenohSettings(
            mode=mode,
            connect=(self.endpoint,),
            # Zenoh's routers always listen, and an attacker may be one.
            listen=(FREE_TLS_PORT,) if mode == "router" else (),
            tls=self.tls(holder),
            open_timeout_s=LONG_S,
            extra={"scouting/delay": 0},
        )
        return self._stack.enter_context(ZenohTransport.open(settings))


@contextmanager
def fleet(folder: Path, shape: str) -> Iterator[Fleet]:
    access = access_control(read_access(folder / "access.json"))
    with ExitStack() as stack:
        if shape == "router":
            tls = Tls.folder(folder / "server-hub")
            router = Router(FREE_TLS_PORT, tls, access_control=access)
            stack.callback(router.close)
            endpoint = router.endpoint
            where = {"connect": (endpoint,)}
        else:
            where = {"listen": (FREE_TLS_PORT,)}
        settings = ZenohSettings(
            mode="peer",
            tls=Tls.folder(folder / "server-a"),
            extra={**QUICK, **({} if shape == "router" else {"access_control": access})},
            **where,
        )
        node = stack.enter_context(ZenohTransport.open(settings))
        if shape != "router":
            endpoint = endpoint_of(node._session, "peer")
        yield Fleet(folder, endpoint, node, stack, is_routed=shape == "router")


class Attacker(NamedTuple):
    """A node with a valid certificate, or a revoked one, that does as it likes."""

    node: Transport
    holder: str


@contextmanager
def declared(*declarations: Declared) -> Iterator[None]:
    try:
        yield
    finally:
        for one in declarations:
            one.close()


def settle(fleet: Fleet, attacker: Attacker) -> None:
    """Return when the other side has read all that the attacker has declared and sent.

    One link keeps the order, so something that is allowed and comes last is waited for. A revoked
    node may do nothing; a time-out has to do.
    """
    role, _, name = attacker.holder.partition("-")
    if attacker.holder == "robot-sold":
        attacker.node.ask("nothing", b"", SHORT_S)
    elif role == "server":
        key = SERVERS.server(name).alive
        log = Log()
        with fleet.node("operator-jo") as watcher, declared(attacker.node.announce(key)):
            watcher.watch(key, log.add)
            log.wait_for((key, True))
    else:
        key = A.client(name).alive
        with declared(attacker.node.announce(key)):
            eventually(lambda: fleet.server.client_alive(name))
