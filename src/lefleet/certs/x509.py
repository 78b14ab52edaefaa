"""Keys and certificates as PEM: P-256, one authority, and leaves that it signs."""

from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CLOCKS_DIFFER_BY = timedelta(days=1)
"""Certificates are valid from this long ago: clocks of robots are not exact."""


class PemPair(NamedTuple):
    """A certificate and its private key."""

    cert: bytes
    key: bytes


def new_serial() -> int:
    """A serial number that no other certificate has."""
    return x509.random_serial_number()


def make_authority(now: datetime, expires: datetime) -> PemPair:
    """An authority that signs leaves only, no further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("LeFleet authority")
    unsigned = (
        _unsigned(name, name, key.public_key(), new_serial(), (now, expires))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pem(unsigned.sign(key, hashes.SHA256()), key)


def make_leaf(
    authority: PemPair,
    common_name: str,
    hosts: tuple[str, ...],
    *,
    may_listen: bool,
    serial: int,
    now: datetime,
    expires: datetime,
) -> PemPair:
    """A certificate for one node. Only with `may_listen` others accept it from a listener: a robot
    that listened would otherwise be taken for a router."""
    signer = load_pem_private_key(authority.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)  # noqa: S101 - we made it
    issuer = x509.load_pem_x509_certificate(authority.cert)
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if may_listen:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    unsigned = (
        _unsigned(_name(common_name), issuer.subject, key.public_key(), serial, (now, expires))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        unsigned = unsigned.add_extension(names, critical=False)
    return _pem(unsigned.sign(signer, hashes.SHA256()), key)


def end_of(cert: bytes) -> datetime:
    """When a certificate expires; ValueError if it is none."""
    return x509.load_pem_x509_certificate(cert).not_valid_after_utc


def is_pair(pair: PemPair) -> bool:
    """Whether the key is that of the certificate; ValueError if either cannot be read."""
    own = load_pem_private_key(pair.key, None).public_key()
    return own == x509.load_pem_x509_certificate(pair.cert).public_key()


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    serial: int,
    lifetime: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(lifetime[0] - _CLOCKS_DIFFER_BY)
        .not_valid_after(lifetime[1])
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(cert: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> PemPair:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return PemPair(cert.public_bytes(Encoding.PEM), private)
