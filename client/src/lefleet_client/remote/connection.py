"""The session in use, and the next one when it is lost."""

import logging
from typing import Any

from lefleet_client.remote.errors import NoServer, RemoteError, Replaced
from lefleet_client.remote.link import Link
from lefleet_client.remote.opening import Opener
from lefleet_client.transport import (
    CannotOpen,
    Forked,
    Tls,
    Transport,
    ZenohSettings,
    ZenohTransport,
)
from lefleet_client.wire import REPLACED, SessionAck

_LOG = logging.getLogger(__name__)


class Connection:
    """Belongs to one caller. `link` and `ack` are those of the newest session, lost or not."""

    def __init__(self, opener: Opener, deadline_s: float, owned: tuple[Transport, ...]) -> None:
        self._opener = opener
        self._owned = owned
        self.link: Link
        self.ack: SessionAck
        self._open(deadline_s)

    @property
    def is_ending(self) -> bool:
        return self._opener.is_ending

    def require_open(self) -> None:
        self._opener.require_open()

    def end(self) -> None:
        """Open no other session, and let a waiting caller go; a signal handler may call."""
        self._opener.is_ending = True
        self.link.wake()

    def usable(self, deadline_s: float) -> Link:
        """The session as it is, or a new one if the server has gone, drains or closed it."""
        self.require_open()
        link = self.link
        link.catch_up()
        if link.is_usable:
            return link
        self.require_open()
        because, link.closed_because = link.closed_because, "left"
        link.close(say_goodbye=False)
        if because.startswith(REPLACED):
            raise Replaced(
                f"another process opened a session on server {link.server} with the client_id of "
                "this one; give each its own client_id. The next call takes the place back"
            )
        _LOG.info("left server %s, which %s", link.server, because or link.state)
        self._open(deadline_s)
        # Whoever ended it meanwhile has woken the link before this one.
        self.require_open()
        return self.link

    def close(self) -> None:
        """Give the place back; what was not opened here stays open. Twice is fine."""
        self.link.close(say_goodbye=True)
        for transport in self._owned:
            transport.close()

    def _open(self, deadline_s: float) -> None:
        self.link, self.ack = self._opener.open(deadline_s)
        for warning in self.ack.warnings:
            _LOG.warning("server %s: %s", self.link.server, warning)


def open_node(
    endpoints: tuple[str, ...], tls: Tls | None, timeout_s: float, extra: dict[str, Any]
) -> Transport:
    """A node on the network: a client of one endpoint, or a peer that is connected to several."""
    settings = ZenohSettings(
        mode="client" if len(endpoints) == 1 else "peer",
        connect=endpoints,
        tls=tls,
        open_timeout_s=timeout_s,
        extra=extra,
    )
    try:
        return ZenohTransport.open(settings)
    except CannotOpen as error:
        raise NoServer(str(error)) from None
    except Forked as error:
        raise RemoteError(str(error)) from None
