"""Which servers are there: one question that all of them answer."""

import logging
from collections.abc import Iterable

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

    A name may be given in full or as the segment of the key that it folds to; where a server has
    exactly this name, the others are not meant.
    """
    keys = matching_servers(model, revision, service)
    found = []
    for reply in transport.ask(keys.status, b"", timeout_s).replies:
        try:
            status = STATUS.decode(reply.payload)
        except BadBody as error:
            _LOG.warning("%s: the status cannot be read: %s", reply.key, error)
            continue
        found.append(status)
    meant = named(found, service=service, model=model, revision=revision)
    return tuple(sorted(meant, key=lambda one: (one.service, one.model, one.revision, one.server)))


def named(found: Iterable[Status], **names: str) -> list[Status]:
    """Those that are meant by names such as `service`."""
    meant = list(found)
    for field, given in names.items():
        if given:
            exact = [one for one in meant if getattr(one, field) == given]
            meant = exact or [one for one in meant if slug(getattr(one, field), field) == given]
    return meant
