"""A node that others connect to: whom it lets in, how large messages may be, when it must reopen.

Zenoh reads certificates and access lists only when a node is opened. So a router or server that
runs looks at its files, and opens its node again when one of them has changed.
"""

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from lefleet.certs.access import access_control, read_access
from lefleet.errors import BadInput
from lefleet_client import wire
from lefleet_client.transport import (
    BadSettings,
    Tls,
    ZenohSettings,
    certificate_identity,
    certified_name,
    require_usable,
    tls_warnings,
)
from lefleet_client.wire.keys import ROOT

_LOG = logging.getLogger(__name__)

_TREE = f"{ROOT}/**"
_HEADER_BYTES = 1024
"""More than a header has, which travels beside the body."""
MOST_OBSERVATIONS_HZ = 1000.0
FileState = tuple[int, int, int]


def listener(settings: ZenohSettings) -> ZenohSettings:
    """The settings of a router or server, with limits for sizes and with its access list."""
    extra: dict[str, Any] = {"low_pass_filter": size_limits()}
    if settings.insecure and settings.is_insecure:
        _LOG.warning(
            "event=insecure listen=%s connect=%s: anyone on the network can read and forge all",
            ",".join(settings.listen),
            ",".join(settings.connect),
        )
    if settings.tls is not None:
        for warning in tls_warnings(settings.tls, datetime.now(UTC)):
            _LOG.warning("event=certificate_warning text=%r", warning)
    if settings.listen and settings.tls is not None:
        extra["downsampling"] = rate_limits()
        # Others accept no other role's certificate from a node that listens.
        name = certified_name(settings.tls, "", "tls", ("server",))
        if not settings.tls.access:
            if name:
                raise BadInput(
                    f"tls.access: the certificate of server-{name} has no access list, and without "
                    "one every certificate of its authority may do everything.",
                    "Copy access.json from the authority's folder beside it, and name that folder.",
                )
            _LOG.warning(
                "event=no_access_list cert=%s: every certificate of the authority may do all",
                settings.tls.cert,
            )
        elif settings.connect:
            raise BadInput(
                "connect: a node that others connect to cannot join a router as well while it has "
                f"an access list ({settings.tls.access}): it could not tell whose messages that "
                "router forwards.",
                "Give listen or connect, and let robots and servers connect to one router.",
            )
        else:
            extra["access_control"] = access_control(read_access(settings.tls.access))
    return replace(settings, extra={**extra, **settings.extra})


def rate_limits() -> list[dict[str, Any]]:
    """Zenoh's setting `downsampling`: observations that follow closer on one link are dropped.

    A robot waits for each answer, and none takes less than a millisecond. Only for TLS, where a
    link has one certificate, and so one robot.
    """
    rule = {"key_expr": wire.matching_servers().any_client.obs, "freq": MOST_OBSERVATIONS_HZ}
    return [
        {
            "id": "observations",
            "flows": ["ingress"],
            "messages": ["put"],
            "link_protocols": ["tls", "quic"],
            "rules": [rule],
        }
    ]


def size_limits() -> list[dict[str, Any]]:
    """Zenoh's setting `low_pass_filter`: messages above these sizes are dropped on arrival.

    A limit holds for a message only if the rule's keys include the message's, so there is one for
    the whole tree besides those for single keys; the smallest counts.
    """
    servers, robots = wire.matching_servers(), wire.matching_robots()
    of_robot = wire.ROBOT_STATUS.limits.max_bytes
    limits = {
        "question": ("query", _TREE, wire.SESSION_REQUEST.limits.max_bytes),
        "answer": ("reply", _TREE, wire.STATUS.limits.max_bytes),
        "publication": ("put", _TREE, wire.OBSERVATION.limits.max_bytes + _HEADER_BYTES),
        "chunk": ("put", servers.any_client.action, wire.CHUNK.limits.max_bytes + _HEADER_BYTES),
        "robot status": ("put", robots.status, of_robot + _HEADER_BYTES),
        "robot answer": ("reply", robots.status, of_robot),
    }
    return [
        {
            "id": name,
            "flows": ["ingress"],
            "messages": [message],
            "key_exprs": [key],
            "size_limit": size,
        }
        for name, (message, key, size) in limits.items()
    ]


class TlsFiles:
    """The files that a node was opened with; `has_changed` once they are complete and different.

    A renewed certificate arrives file by file, so files that do not fit together are left alone
    until they do. What is wrong with them is logged once for each change.
    """

    def __init__(self, settings: ZenohSettings) -> None:
        self._tls = settings.tls
        self._access = settings.tls.access if settings.tls and settings.listen else ""
        self._opened = self._refused = self._states()
        self._holder = certificate_identity(self._tls.cert).holder if self._tls else ""

    def has_changed(self) -> bool:
        states = self._states()
        if self._tls is None or states in (self._opened, self._refused):
            return False
        try:
            self._require_usable(self._tls)
        except (BadInput, BadSettings) as error:
            self._refused = states
            _LOG.warning("event=tls_files_not_used reason=%r", str(error))
            return False
        self._opened = self._refused = states
        return True

    def _states(self) -> dict[str, FileState]:
        if self._tls is None:
            return {}
        paths = (self._tls.ca, self._tls.cert, self._tls.key, self._access)
        return {path: _state(path) for path in paths if path}

    def _require_usable(self, tls: Tls) -> None:
        require_usable(tls)
        if (holder := certificate_identity(tls.cert).holder) != self._holder:
            raise BadSettings(
                f"tls.cert: {tls.cert!r} is now the certificate of {holder or 'nobody'}, not of "
                f"{self._holder or 'nobody'}; restart to change the name"
            )
        if self._access:
            read_access(self._access)


def _state(path: str) -> FileState:
    try:
        found = Path(path).stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)
