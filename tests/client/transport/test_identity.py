"""Role, name and end of certificates, read without a library for them."""

import base64
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet_client.transport import (
    BadSettings,
    CertificateIdentity,
    Tls,
    certificate_identity,
    certified_name,
    require_usable,
    tls_warnings,
)

KEY = ec.generate_private_key(ec.SECP256R1())
ENDS = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)


def certificate(*names: tuple[x509.ObjectIdentifier, str], ends: datetime = ENDS) -> bytes:
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in names])
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "robot-of-the-issuer")])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(ends)
        .sign(KEY, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def named(folder: Path, common_name: str) -> Tls:
    (folder / "cert.pem").write_bytes(certificate((NameOID.COMMON_NAME, common_name)))
    return Tls.folder(folder)


@pytest.mark.parametrize(
    ("common_name", "role", "name"),
    [
        ("robot-arm-7", "robot", "arm-7"),
        ("server-gpu", "server", "gpu"),
        ("operator-jo", "operator", "jo"),
        ("robot-", "", ""),
        ("robot", "", ""),
        ("robots-arm", "", ""),
        ("Roboter-Ä", "", ""),
        ("router.example", "", ""),
    ],
)
@pytest.mark.parametrize("ends", [ENDS, datetime(2061, 5, 6, 7, 8, 9, tzinfo=UTC)], ids=str)
def test_a_certificate_says_whose_it_is(tmp_path, common_name, role, name, ends):
    organisation = (NameOID.ORGANIZATION_NAME, "robot-fake")
    path = tmp_path / "cert.pem"
    path.write_bytes(certificate(organisation, (NameOID.COMMON_NAME, common_name), ends=ends))
    identity = certificate_identity(path)
    assert identity == CertificateIdentity(common_name, ends)
    assert (identity.role, identity.name) == (role, name)


def test_a_certificate_of_another_library_without_a_common_name_is_foreign(tmp_path):
    trustme.CA().issue_cert("127.0.0.1").cert_chain_pems[0].write_to_path(tmp_path / "c.pem")
    identity = certificate_identity(tmp_path / "c.pem")
    assert (identity.common_name, identity.role) == ("", "")
    assert identity.not_after > datetime.now(UTC)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
    ],
)
def test_what_is_no_certificate_is_named(tmp_path, content):
    (tmp_path / "cert.pem").write_bytes(content)
    with pytest.raises(BadSettings, match=r"^tls\.cert: .*cert\.pem"):
        certificate_identity(tmp_path / "cert.pem")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(BadSettings, match=r"^tls\.cert: .*there is no file"):
        certificate_identity(tmp_path / "cert.pem")


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_damaged_certificate_is_read_or_refused(tmp_path_factory, at, byte):
    pem = certificate((NameOID.COMMON_NAME, "robot-arm"))
    der = bytearray(x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER))
    der[at % len(der)] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.pem"
    body = base64.encodebytes(bytes(der))
    path.write_bytes(b"-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n")
    with suppress(BadSettings):
        certificate_identity(path)


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (timedelta(days=31), ""),
        (timedelta(days=29), "the certificate robot-arm ends on 2031-05-06"),
        (timedelta(seconds=-1), "the certificate robot-arm has ended on 2031-05-06"),
    ],
)
def test_a_certificate_that_ends_soon_gives_a_warning(left, words):
    warning = CertificateIdentity("robot-arm", ENDS).ending(ENDS - left)
    assert warning.startswith(words)
    assert ("lefleet certs renew arm" in warning) == bool(words)


@pytest.mark.parametrize(("mode", "count"), [(0o600, 0), (0o640, 0), (0o644, 1)])
def test_a_key_that_every_user_can_read_gives_a_warning(tmp_path, mode, count):
    tls = named(tmp_path, "robot-arm")
    assert tls_warnings(tls, ENDS - timedelta(days=99)) == [], "opening names a missing key"
    (tmp_path / "key.pem").touch()
    (tmp_path / "key.pem").chmod(mode)
    warnings = tls_warnings(tls, ENDS - timedelta(days=99))
    assert ["chmod 600" in one for one in warnings] == [True] * count


def test_a_node_goes_by_the_name_of_its_certificate(tmp_path):
    tls = named(tmp_path, "robot-arm")
    assert certified_name(tls, "", "client_id", ("robot", "operator")) == "arm"
    assert certified_name(tls, "arm", "client_id", ("robot", "operator")) == "arm"
    with pytest.raises(BadSettings, match=r"^client_id: 'leg' is not .* 'arm'"):
        certified_name(tls, "leg", "client_id", ("robot", "operator"))


def test_the_folder_of_one_name_is_asked_for_where_another_was_given(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(BadSettings, match=r"there is no file .*cert.pem'; .* certs/robot-NAME"):
            certified_name(Tls.folder(folder), "", "client_id", ("robot",))


def test_a_folder_that_cannot_be_looked_into_is_named():
    """As one of another user, which the superuser who may run this can read."""
    folder = Tls.folder("x" * 300)
    for use in (require_usable, lambda tls: certified_name(tls, "", "client_id", ("robot",))):
        with pytest.raises(BadSettings, match=r"^tls\..*x/c.*\.pem' cannot be read: File name too"):
            use(folder)


def test_a_certificate_of_another_role_is_refused(tmp_path):
    with pytest.raises(BadSettings, match=r"operator-jo, .* role server is needed; .* server NAME"):
        certified_name(named(tmp_path, "operator-jo"), "gpu", "server_name", ("server",))


def test_a_foreign_certificate_leaves_the_choice(tmp_path):
    tls = named(tmp_path, "gpu.example")
    assert certified_name(tls, "any", "server_name", ("server",)) == "any"
    assert certified_name(tls, "", "server_name", ("server",)) == ""
    assert certified_name(None, "any", "server_name", ("server",)) == "any"
