"""Which servers are there: one question that all of them answer."""

import logging

from lefleet_client.transport import Transport
from lefleet_client.wire import STATUS, BadBody, Status, matching_servers, slug

_LOG = logging.getLogger(__name__)


def discover(
    transport: Transport,
    service: str = "",
    model: str = "",
    revision: str = "",
    timeout_s: float = 1.0,
) -> tuple[Status, ...]:
    """Every server that answers in time, replicas beside each other; an empty name means any.

    A name may be given in full or as the segment of the key that it folds to.
    """
    keys = matching_servers(model, revision, service)
    found = []
    for reply in transport.ask(keys.status, b"", timeout_s).replies:
        try:
            status = STATUS.decode(reply.payload)
        except BadBody as error:
            _LOG.warning("%s: the status cannot be read: %s", reply.key, error)
            continue
        if (
            is_named(status.service, service)
            and is_named(status.model, model)
            and is_named(status.revision, revision)
        ):
            found.append(status)
    return tuple(sorted(found, key=lambda one: (one.service, one.model, one.revision, one.server)))


def is_named(full: str, given: str) -> bool:
    """Whether a server of this name is meant."""
    return given in {"", full, slug(full, "name")}
