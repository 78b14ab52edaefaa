"""Which servers are there: one question that all of them answer."""

import logging
from collections.abc import Iterable

from lefleet_client.transport import Reply, Transport
from lefleet_client.wire import (
    STATUS,
    STATUS_REQUEST,
    BadBody,
    ServerStatus,
    StatusRequest,
    matching_servers,
    slug,
)

_LOG = logging.getLogger(__name__)


def discover(
    transport: Transport,
    service: str = "",
    model: str = "",
    revision: str = "",
    timeout_s: float = 1.0,
    *,
    with_clients: bool = False,
) -> tuple[ServerStatus, ...]:
    """Every server that answers in time, replicas beside each other; an empty name means any.

    A name may be given in full or as the segment of the key that it folds to; where a server has
    exactly this name, the others are not meant. `with_clients` asks for each server's robots too.
    """
    pattern = matching_servers(model, revision, service).status
    statuses, _ = ask_statuses(transport, pattern, timeout_s, with_clients=with_clients)
    meant = named(statuses, service=service, model=model, revision=revision)
    return tuple(sorted(meant, key=lambda one: (*kind(one), one.server)))


def ask_statuses(
    transport: Transport, pattern: str, timeout_s: float, *, with_clients: bool = False
) -> tuple[tuple[ServerStatus, ...], bool]:
    """The statuses under these keys, and whether every server that was asked has answered."""
    request = STATUS_REQUEST.encode(StatusRequest(with_clients=with_clients))
    answers = transport.ask(pattern, request, timeout_s)
    read = [_read(reply) for reply in answers.replies]
    return tuple(status for status in read if status is not None), answers.is_complete


def _read(reply: Reply) -> ServerStatus | None:
    try:
        return STATUS.decode(reply.payload)
    except BadBody as error:
        _LOG.warning("%s: the status cannot be read: %s", reply.key, error)
        return None


def kind(status: ServerStatus) -> tuple[str, str, str]:
    """Service, model and revision: replicas have them in common."""
    return status.service, status.capabilities.model, status.capabilities.revision


def named(
    found: Iterable[ServerStatus], *, service: str = "", model: str = "", revision: str = ""
) -> list[ServerStatus]:
    """Those that are meant by these names; an empty name means any."""
    meant = list(found)
    for place, given in enumerate((service, model, revision)):
        if given:
            exact = [one for one in meant if kind(one)[place] == given]
            meant = exact or [one for one in meant if slug(kind(one)[place], "name") == given]
    return meant
