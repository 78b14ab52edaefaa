"""How to open a Zenoh session: values that were measured to work."""

import json
import os
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

import zenoh
from msgspec import Meta, Struct, field

from lefleet_client.transport.errors import BadSettings
from lefleet_client.wire import MAX_MESSAGE_BYTES

# A frozen node is noticed after the lease, and a lost link is tried again this often.
LEASE_MS = 1000
RETRY = {"period_init_ms": 100, "period_max_ms": 250, "period_increase_factor": 1.5}
# A server answers many robots over one link to a router. With Zenoh's default, room for two urgent
# messages, a busy machine lost 169 of 720 chunks sent in bursts of twelve; with this, none.
URGENT_QUEUE = 16

# Chunks are a few kilobytes, and the socket carries those 0.1 ms faster than shared memory does.
SHARED_MEMORY_FROM_BYTES = 65536

_ENCRYPTED = ("tls/", "quic/")
_ON_THIS_MACHINE = ("unixsock-stream/", "unixpipe/")


class Tls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Certificates of both ends: each shows its own, and trusts only those of `ca`.

    `access` is the list of those who may connect, for a node that listens.
    """

    ca: str
    cert: str
    key: str
    access: str = ""

    @classmethod
    def folder(cls, path: str | Path) -> "Tls":
        """The files of a folder that `lefleet certs` made; they are read when a node is opened."""
        folder = Path(path).expanduser()
        access = folder / "access.json"
        return cls(
            ca=str(folder / "ca.pem"),
            cert=str(folder / "cert.pem"),
            key=str(folder / "key.pem"),
            # Path.is_file raises where this user may not look.
            access=str(access) if os.path.isfile(access) else "",  # noqa: PTH113
        )


class ZenohSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node. Others are found by `connect` and `listen` alone, never by multicast or hearsay.

    A client fails to open when no node answers; peers and routers open, and keep trying. `extra`
    holds Zenoh's own settings by path, such as `{"access_control/enabled": true}`. Endpoints beyond
    this machine are encrypted, unless `insecure` is said.
    """

    mode: Literal["client", "peer", "router"] = "client"
    connect: tuple[str, ...] = ()
    listen: tuple[str, ...] = ()
    tls: Tls | None = None
    insecure: bool = False
    open_timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 2.0
    shared_memory: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_insecure(self) -> bool:
        """Whether others on the network can read and forge what this node sends and receives."""
        return any(map(_is_open, (*self.connect, *self.listen)))


_WITH_PORT = ("tcp", "tls", "udp", "quic", "ws")


def zenoh_config(settings: ZenohSettings) -> zenoh.Config:
    """Zenoh's form of the settings."""
    _require_endpoints(settings)
    config = zenoh.Config()
    for path, value in {**_values(settings), **_tls_values(settings.tls), **settings.extra}.items():
        _insert(config, path, value)
    return config


def _insert(config: zenoh.Config, path: str, value: object) -> None:
    try:
        config.insert_json5(path, json.dumps(value))
    except (zenoh.ZError, TypeError) as error:
        raise BadSettings(f"{path}: Zenoh does not take {value!r}: {error}") from None


def _values(settings: ZenohSettings) -> dict[str, object]:
    timeout_ms = max(1, round(settings.open_timeout_s * 1000))
    return {
        "mode": settings.mode,
        "connect/endpoints": settings.connect,
        "connect/timeout_ms": timeout_ms,
        "connect/exit_on_failure": settings.mode == "client",
        "connect/retry": RETRY,
        "listen/endpoints": settings.listen,
        "scouting/multicast/enabled": False,
        # Other nodes tell of addresses, which nobody has checked.
        "scouting/gossip/autoconnect": {"router": [], "peer": [], "client": []},
        "transport/unicast/open_timeout": timeout_ms,
        "transport/unicast/accept_timeout": timeout_ms,
        "transport/link/tx/lease": LEASE_MS,
        "transport/link/tx/queue/size/interactive_high": URGENT_QUEUE,
        "transport/link/rx/max_message_size": MAX_MESSAGE_BYTES,
        "transport/shared_memory/transport_optimization/enabled": settings.shared_memory,
        "transport/shared_memory/transport_optimization/message_size_threshold": (
            SHARED_MEMORY_FROM_BYTES
        ),
    }


def _tls_values(tls: Tls | None) -> dict[str, object]:
    if tls is None:
        return {}
    require_usable(tls)
    return {
        "transport/link/protocols": [one.rstrip("/") for one in _ENCRYPTED],
        "transport/link/tls": {
            "root_ca_certificate": tls.ca,
            "enable_mtls": True,
            "verify_name_on_connect": True,
            "close_link_on_expiration": True,
            "listen_certificate": tls.cert,
            "listen_private_key": tls.key,
            "connect_certificate": tls.cert,
            "connect_private_key": tls.key,
        },
    }


def no_file(name: str, path: str) -> str:
    """That a file of `tls` is missing; often another folder is meant."""
    return (
        f"tls.{name}: there is no file {path!r}; tls is the folder of one name, such as "
        "certs/robot-NAME or certs/server-NAME"
    )


def require_usable(tls: Tls) -> None:
    """Refuse files that are missing or do not belong together, as a folder copied in part."""
    for name in ("ca", "cert", "key"):
        path = getattr(tls, name)
        try:
            Path(path).open("rb").close()
        except (FileNotFoundError, NotADirectoryError):
            raise BadSettings(no_file(name, path)) from None
        except OSError as error:
            raise BadSettings(f"tls.{name}: {path!r} cannot be read: {error.strerror}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(tls.ca)
    except (OSError, ValueError) as error:
        raise BadSettings(f"tls.ca: {tls.ca!r} cannot be used: {error}") from None
    try:
        # Without a password, OpenSSL would ask the terminal for one.
        context.load_cert_chain(tls.cert, tls.key, password="")
    except (OSError, ValueError) as error:
        raise BadSettings(
            f"tls.key: {tls.key!r} is not the key of {tls.cert!r}, or one of them cannot be used: "
            f"{error}; copy the whole folder again"
        ) from None


def _require_endpoints(settings: ZenohSettings) -> None:
    if settings.mode == "client" and not settings.connect:
        raise BadSettings("connect: a client needs at least one, such as tls/10.0.0.5:7447")
    if settings.mode == "client" and settings.listen:
        raise BadSettings("listen: only a peer or router listens; set mode to peer")
    if settings.mode == "router" and not settings.listen:
        raise BadSettings("listen: a router needs at least one, such as tls/0.0.0.0:7447")
    for name in ("connect", "listen"):
        for endpoint in getattr(settings, name):
            protocol, slash, place = endpoint.partition("/")
            if not slash or (protocol in _WITH_PORT and ":" not in place):
                raise BadSettings(
                    f"{name}: {endpoint!r} is not an endpoint. Write it like tls/10.0.0.5:7447"
                )
            is_encrypted = endpoint.startswith(_ENCRYPTED)
            if settings.tls is not None and not is_encrypted:
                raise BadSettings(
                    f"{name}: {endpoint!r} is not encrypted, but tls is set. Write tls/{place}"
                )
            if settings.tls is None and is_encrypted:
                raise BadSettings(
                    f"{name}: {endpoint!r} needs tls.ca, tls.cert and tls.key. Give the folder "
                    "that lefleet certs made as tls"
                )
            if _is_open(endpoint) and not settings.insecure:
                raise BadSettings(
                    f"{name}: {endpoint!r} is beyond this machine and not encrypted: anyone on the "
                    "network could read and forge what robots do. Use tls/ with certificates "
                    "(lefleet certs), or accept that with --insecure (insecure: true in a "
                    "manifest, insecure=True in Python)"
                )
    for path in settings.extra:
        first, _, rest = path.strip("/").partition("/")
        if first in ("connect", "listen") and rest.partition("/")[0] in ("", "endpoints"):
            raise BadSettings(f"{path}: give endpoints as connect and listen")


def _is_open(endpoint: str) -> bool:
    """Whether an endpoint is neither encrypted nor, by its name, on this machine."""
    if endpoint.startswith((*_ENCRYPTED, *_ON_THIS_MACHINE)):
        return False
    place = endpoint.partition("/")[2].partition("?")[0].partition("#")[0]
    host = place.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True
