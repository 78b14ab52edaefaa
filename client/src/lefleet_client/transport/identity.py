"""Whose certificate it is: role, name and end, read from its file.

An access list lets a node use only the keys of its certificate's name. So a node that would use
another name is refused here, with a sentence, instead of being ignored by the network.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

from lefleet_client.transport.errors import BadSettings
from lefleet_client.transport.settings import Tls, no_file

ROLES = ("robot", "server", "operator")
WARN_BEFORE = timedelta(days=30)

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_LARGEST_FILE = 1 << 20

_VERSION = 0xA0
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_TEXTS = {0x0C: "utf-8", 0x13: "ascii", 0x16: "ascii", 0x14: "latin-1", 0x1E: "utf-16-be"}
_COMMON_NAME = bytes((0x55, 0x04, 0x03))


class CertificateIdentity(NamedTuple):
    """The common name is ROLE-NAME; a certificate of another authority may have any."""

    common_name: str
    not_after: datetime

    @property
    def role(self) -> str:
        """robot, server or operator; empty for a foreign certificate."""
        role, dash, name = self.common_name.partition("-")
        return role if dash and name and role in ROLES else ""

    @property
    def name(self) -> str:
        return self.common_name.partition("-")[2] if self.role else ""

    @property
    def holder(self) -> str:
        """ROLE-NAME; empty for a foreign certificate."""
        return self.common_name if self.role else ""

    def ending(self, now: datetime) -> str:
        """What to do about a certificate that ends soon; empty while there is time."""
        if now < self.not_after - WARN_BEFORE:
            return ""
        verb = "ends" if now < self.not_after else "has ended"
        return (
            f"the certificate {self.common_name} {verb} on {self.not_after:%Y-%m-%d}; make a new "
            f"one with lefleet certs renew {self.name or self.common_name}"
        )


def certificate_identity(path: str | Path) -> CertificateIdentity:
    """Of the first certificate in a PEM file."""
    try:
        with Path(path).open("rb") as file:
            found = _PEM.search(file.read(_LARGEST_FILE))
    except (FileNotFoundError, NotADirectoryError):
        raise BadSettings(no_file("cert", str(path))) from None
    except OSError as error:
        raise BadSettings(f"tls.cert: {str(path)!r} cannot be read: {error.strerror}") from None
    if found is None:
        raise BadSettings(f"tls.cert: {str(path)!r} holds no certificate in PEM form")
    try:
        return _read(base64.b64decode(b"".join(found[1].split()), validate=True))
    except (ValueError, IndexError, OverflowError, StopIteration, binascii.Error) as error:
        raise BadSettings(f"tls.cert: {str(path)!r} is not a certificate: {error}") from None


def tls_warnings(tls: Tls, now: datetime) -> list[str]:
    """What works, and should not stay so."""
    warnings = [certificate_identity(tls.cert).ending(now)]
    with suppress(OSError):  # opening a node says what is missing
        if Path(tls.key).stat().st_mode & 0o007:
            warnings.append(f"every user of this machine can use {tls.key}; run chmod 600 on it")
    return [one for one in warnings if one]


def certified_name(tls: Tls | None, given: str, field: str, roles: tuple[str, ...]) -> str:
    """The name that a node goes by: `given`, or that of its certificate.

    With a foreign certificate, or none, it is `given`, which may be empty. A certificate of another
    role or name is refused.
    """
    if tls is None:
        return given
    identity = certificate_identity(tls.cert)
    if not identity.role:
        return given
    if identity.role not in roles:
        raise BadSettings(
            f"tls.cert: {tls.cert!r} is the certificate of {identity.common_name}, and the role "
            f"{' or '.join(roles)} is needed; make one with lefleet certs {roles[0]} NAME"
        )
    if given and given != identity.name:
        raise BadSettings(
            f"{field}: {given!r} is not the name in the certificate, {identity.name!r}; leave "
            f"{field} out, or make a certificate with lefleet certs {identity.role} {given}"
        )
    return identity.name


def _read(der: bytes) -> CertificateIdentity:
    """Certificate → to be signed → validity and subject, by their places."""
    ((_, certificate),) = _items(der)
    fields = _items(next(_items(certificate))[1])
    tag, _ = next(fields)
    if tag == _VERSION:
        next(fields)
    _signature, _issuer, (_, validity), (_, subject) = [next(fields) for _ in range(4)]
    _not_before, not_after = _items(validity)
    return CertificateIdentity(_common_name(subject), _time(*not_after))


def _common_name(subject: bytes) -> str:
    """The first one, as Zenoh reads it; empty where there is none."""
    for _, group in _items(subject):
        for _, pair in _items(group):
            (_, kind), (tag, value) = _items(pair)
            if kind == _COMMON_NAME:
                return value.decode(_TEXTS.get(tag, "utf-8"))
    return ""


def _time(tag: int, value: bytes) -> datetime:
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}.get(tag)
    if form is None:
        raise ValueError(f"tag {tag:#x} is not a time")
    return datetime.strptime(value.decode("ascii"), form).replace(tzinfo=timezone.utc)


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The values of a DER sequence, with their tags."""
    at = 0
    while at < len(data):
        tag, size = data[at], data[at + 1]
        at += 2
        if size >= 0x80:
            digits = size - 0x80
            size = int.from_bytes(data[at : at + digits], "big")
            at += digits
        value = data[at : at + size]
        if len(value) != size:
            raise ValueError(f"a value of {size} bytes is cut off")
        yield tag, value
        at += size
