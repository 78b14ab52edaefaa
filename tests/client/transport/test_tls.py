"""Mutual TLS over loopback, with certificates made here."""

from pathlib import Path

import pytest
import trustme

from lefleet_client.transport import (
    BadSettings,
    CannotOpen,
    Tls,
    ZenohSettings,
    ZenohTransport,
    ask_one,
)
from tests.client.transport.networks import Router
from tests.client.transport.waiting import LONG_S, Log, bounded

FREE_TLS_PORT = "tls/127.0.0.1:0"


def certificates(folder: Path, authority: trustme.CA, name: str = "127.0.0.1") -> Tls:
    """What one node needs: the authority that it trusts, and its own certificate from it."""
    folder.mkdir()
    own = authority.issue_cert(name)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    own.private_key_pem.write_to_path(folder / "key.pem")
    for blob in own.cert_chain_pems:
        blob.write_to_path(folder / "cert.pem", append=True)
    return Tls(
        ca=str(folder / "ca.pem"), cert=str(folder / "cert.pem"), key=str(folder / "key.pem")
    )


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def router(tmp_path, authority):
    router = Router(FREE_TLS_PORT, certificates(tmp_path / "router", authority))
    yield router
    router.close()


def open_client(endpoint: str, tls: Tls | None, timeout_s: float = LONG_S) -> ZenohTransport:
    settings = ZenohSettings(connect=(endpoint,), tls=tls, open_timeout_s=timeout_s)
    return ZenohTransport.open(settings)


def test_nodes_of_one_authority_talk(tmp_path, authority, router):
    server = open_client(router.endpoint, certificates(tmp_path / "server", authority))
    with server, open_client(router.endpoint, certificates(tmp_path / "edge", authority)) as edge:
        server.serve("a", lambda question: b"secret " + question.payload)
        server.announce("ready")
        log = Log()
        edge.watch("ready", log.add)
        log.wait_for(("ready", True))
        assert ask_one(edge, "a", b"x", LONG_S) == b"secret x"


def test_a_robot_with_a_foreign_certificate_is_not_let_in(tmp_path, authority, router):
    own = certificates(tmp_path / "own", authority)
    foreign = certificates(tmp_path / "foreign", trustme.CA())
    other = Tls(ca=own.ca, cert=foreign.cert, key=foreign.key)
    with pytest.raises(CannotOpen, match="certificates"):
        bounded_open(router.endpoint, other)


def test_a_robot_does_not_trust_a_foreign_router(tmp_path, router):
    with pytest.raises(CannotOpen):
        bounded_open(router.endpoint, certificates(tmp_path / "foreign", trustme.CA()))


def test_a_router_under_another_name_is_not_trusted(tmp_path, authority):
    other = certificates(tmp_path / "other", authority, name="elsewhere.example")
    router = Router(FREE_TLS_PORT, other)
    try:
        with pytest.raises(CannotOpen):
            bounded_open(router.endpoint, certificates(tmp_path / "edge", authority))
    finally:
        router.close()


def test_without_tls_no_client_gets_in(router):
    with pytest.raises(CannotOpen):
        bounded_open(router.endpoint.replace("tls/", "tcp/"), None)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("key", None, r"^tls\.key: there is no file"),
        ("key", "cert", r"^tls\.key: .*key\.pem' is not the key of .*cert\.pem'.*copy the whole"),
        ("key", "other", r"^tls\.key: .*key\.pem' is not the key of .*copy the whole folder"),
        ("cert", "other", r"^tls\.key: .*key\.pem' is not the key of .*copy the whole folder"),
        ("ca", "", r"^tls\.ca: .*ca\.pem' cannot be used"),
    ],
)
def test_a_folder_that_was_copied_in_part_is_named(tmp_path, authority, name, content, words):
    own, other = (certificates(tmp_path / one, authority) for one in ("own", "other"))
    path = Path(getattr(own, name))
    texts = {
        "": "",
        "cert": Path(own.cert).read_text(),
        "other": Path(getattr(other, name)).read_text(),
    }
    path.unlink()
    if content is not None:
        path.write_text(texts[content])
    with pytest.raises(BadSettings, match=words):
        open_client("tls/127.0.0.1:1", own)


def bounded_open(endpoint: str, tls: Tls | None) -> None:
    """Open and close; raises what opening raised."""

    def attempt():
        try:
            open_client(endpoint, tls, timeout_s=0.3).close()
        except CannotOpen as error:
            return error

    if error := bounded(attempt):
        raise error
