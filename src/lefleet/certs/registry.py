"""Every certificate that was issued, and the rules for names: pure, no files."""

import re
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Literal

import msgspec

from lefleet.certs.access import AccessList
from lefleet.errors import BadInput
from lefleet.records.border import Strict
from lefleet_client.wire import BadKey, slug

CertificateRole = Literal["server", "robot", "operator"]

ALWAYS_HOSTS = ("localhost", "127.0.0.1")
"""In every server's certificate, so that commands on its own machine reach it. Whoever connects to
these names reaches only its own machine."""
_MAX_COMMON_NAME = 64
_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")


class IssuedCertificate(Strict, frozen=True, kw_only=True):
    """One certificate; a name that was renewed has several."""

    role: CertificateRole
    name: str
    hosts: tuple[str, ...] = ()
    serial: str
    """Hexadecimal."""
    issued: datetime
    expires: datetime
    revoked: datetime | None = None

    @property
    def common_name(self) -> str:
        """Also the name of its folder."""
        return common_name(self.role, self.name)


class Registry(Strict, frozen=True, kw_only=True):
    """What an authority knows; the oldest certificate first."""

    version: Literal[1] = 1
    certificates: tuple[IssuedCertificate, ...] = ()

    def holders(self) -> list[IssuedCertificate]:
        """The newest certificate of every name: servers, robots, operators."""
        newest = {one.name: one for one in self.certificates}
        order = ("server", "robot", "operator")
        return sorted(newest.values(), key=lambda one: (order.index(one.role), one.name))

    def adding(self, certificate: IssuedCertificate) -> "Registry":
        """The registry with one more."""
        return msgspec.structs.replace(self, certificates=(*self.certificates, certificate))

    def revoking(self, name: str, now: datetime) -> "Registry":
        """The registry with all certificates of a name revoked."""
        return msgspec.structs.replace(
            self,
            certificates=tuple(
                msgspec.structs.replace(one, revoked=now)
                if one.name == name and one.revoked is None
                else one
                for one in self.certificates
            ),
        )

    def access(self) -> AccessList:
        """Names that may connect."""
        names: dict[CertificateRole, list[str]] = {"server": [], "robot": [], "operator": []}
        for one in self.holders():
            if one.revoked is None:
                names[one.role].append(one.name)
        return AccessList(
            servers=tuple(names["server"]),
            robots=tuple(names["robot"]),
            operators=tuple(names["operator"]),
        )


def common_name(role: str, name: str) -> str:
    """The certificate's common name."""
    return f"{role}-{name}"


def require_free(registry: Registry, role: CertificateRole, name: str, now: datetime) -> None:
    """Refuse a name that cannot be issued."""
    try:
        folded = slug(name, "name")
    except BadKey as error:
        raise BadInput(f"{error}.") from error
    if folded != name:
        raise BadInput(
            f"name: {name!r} may contain only letters, digits, '_', '.' and '-'.",
            f"Use {folded.strip('-')}.",
        )
    prefix, dash, rest = name.partition("-")
    if dash and prefix in ("robot", "server", "operator"):
        raise BadInput(
            f"name: {name} begins with a role, which the certificate's folder adds itself.",
            f"Write: lefleet certs {role} {rest or 'NAME'}",
        )
    if (excess := len(common_name(role, name)) - _MAX_COMMON_NAME) > 0:
        raise BadInput(f"name: {name!r} is {excess} characters too long for a certificate.")
    for one in registry.certificates:
        if one.name != name and one.name.casefold() == name.casefold():
            raise BadInput(
                f"name: {name} differs from {one.name} only in upper and lower case, which some "
                "disks do not tell apart.",
                "Choose another name.",
            )
    of_name = [one for one in registry.certificates if one.name == name]
    if not of_name:
        return
    holder, last = of_name[-1], max(one.expires for one in of_name)
    if holder.revoked is None:
        another = "" if holder.role == role else " Names are unique over all roles."
        raise BadInput(
            f"name: {name} is a {holder.role} already.{another}",
            f"Choose another name, or: lefleet certs renew {name}",
        )
    if last > now:
        raise BadInput(
            f"name: {name} was revoked, and its certificate is valid until {last:%Y-%m-%d}: with "
            "the name, the old certificate would be accepted again.",
            f"Choose another name, such as {name}-2.",
        )


def require_holder(registry: Registry, name: str) -> IssuedCertificate:
    """The newest certificate of a name; refuses unknown and revoked names."""
    holders = {one.name: one for one in registry.holders()}
    if (holder := holders.get(name)) is None:
        by_common_name = {one.common_name: one.name for one in holders.values()}
        near = (
            [by_common_name[name]] if name in by_common_name else get_close_matches(name, holders)
        )
        meant = f"Did you mean {near[0]}?" if near else "See: lefleet certs list"
        raise BadInput(f"name: there is no {name!r}.", meant)
    if holder.revoked is not None:
        raise BadInput(
            f"name: {name} was revoked on {holder.revoked:%Y-%m-%d}.",
            "Issue a certificate under another name.",
        )
    return holder


def checked_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """The names and addresses in a server's certificate."""
    if not hosts:
        raise BadInput(
            "host: missing: the name or address that others connect to.",
            "Give --host 10.0.0.5, or --host localhost if it only connects to a router.",
        )
    for host in hosts:
        _require_host(host)
    return tuple(dict.fromkeys((*hosts, *ALWAYS_HOSTS)))


def _require_host(host: str) -> None:
    try:
        address = ip_address(host)
    except ValueError:
        is_name = _HOST.fullmatch(host) and not host.rpartition(".")[2].isdigit()
        if not is_name or len(host) > 253:
            raise BadInput(
                f"host: {host!r} is neither an IP address nor a DNS name.",
                "Write it without protocol and port, such as 10.0.0.5 or gpu.lab",
            ) from None
        return
    if address.is_unspecified:
        raise BadInput(
            f"host: others cannot connect to {host}.", "Give the address that they connect to."
        )
