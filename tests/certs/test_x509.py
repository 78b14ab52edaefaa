"""Certificates in real TLS handshakes, through Zenoh."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lefleet.certs.authority import Authority
from lefleet.certs.x509 import PemPair, make_leaf, new_serial
from lefleet_client.transport import CannotOpen, Tls, ask_one
from tests.client.transport.networks import Router
from tests.client.transport.test_tls import FREE_TLS_PORT, bounded_open, open_client
from tests.client.transport.waiting import LONG_S, Log

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lab") / "certs"
    Authority.create(folder, 3650, NOW)
    with Authority(folder, NOW) as authority:
        authority.issue("server", "hub", ["127.0.0.1"], 365)
        authority.issue("server", "gpu", ["localhost"], 365)
        authority.issue("robot", "arm-7", [], 365)
    return folder


@pytest.fixture
def router(folder):
    router = Router(FREE_TLS_PORT, Tls.folder(folder / "server-hub"))
    yield router
    router.close()


def test_a_server_and_a_robot_meet_at_a_router(folder, router):
    by_name = router.endpoint.replace("127.0.0.1", "localhost")
    with (
        open_client(by_name, Tls.folder(folder / "server-gpu")) as server,
        open_client(router.endpoint, Tls.folder(folder / "robot-arm-7")) as robot,
    ):
        server.serve("a", lambda question: b"secret " + question.payload)
        server.announce("ready")
        log = Log()
        robot.watch("ready", log.add)
        log.wait_for(("ready", True))
        assert ask_one(robot, "a", b"x", LONG_S) == b"secret x"


def test_a_certificate_of_another_authority_is_refused(tmp_path, router):
    Authority.create(tmp_path / "other", 10, NOW)
    with Authority(tmp_path / "other", NOW) as authority:
        authority.issue("robot", "arm-7", [], 10)
    with pytest.raises(CannotOpen):
        bounded_open(router.endpoint, Tls.folder(tmp_path / "other/robot-arm-7"))


def test_an_expired_certificate_is_refused_and_a_renewed_one_is_not(tmp_path):
    before = NOW - timedelta(days=20)
    Authority.create(tmp_path / "certs", 100, before)
    with Authority(tmp_path / "certs", before) as authority:
        authority.issue("server", "hub", ["127.0.0.1"], 100)
        authority.issue("robot", "arm-7", [], 10)
    own = Tls.folder(tmp_path / "certs/robot-arm-7")
    router = Router(FREE_TLS_PORT, Tls.folder(tmp_path / "certs/server-hub"))
    try:
        with pytest.raises(CannotOpen):
            bounded_open(router.endpoint, own)
        with Authority(tmp_path / "certs", NOW) as authority:
            authority.renew("arm-7", [], 10)
        bounded_open(router.endpoint, own)
    finally:
        router.close()


@pytest.mark.parametrize("may_listen", [True, False])
def test_only_a_server_is_accepted_as_a_listener(folder, tmp_path, may_listen):
    """A robot's certificate is refused although the address in it is right."""
    own = folder / "authority"
    pair = make_leaf(
        PemPair((own / "ca.pem").read_bytes(), (own / "ca.key").read_bytes()),
        "robot-x",
        ("127.0.0.1",),
        may_listen=may_listen,
        serial=new_serial(),
        now=NOW,
        expires=NOW + timedelta(days=1),
    )
    (tmp_path / "ca.pem").write_bytes((own / "ca.pem").read_bytes())
    (tmp_path / "cert.pem").write_bytes(pair.cert)
    (tmp_path / "key.pem").write_bytes(pair.key)
    router = Router(FREE_TLS_PORT, Tls.folder(tmp_path))
    try:
        if may_listen:
            bounded_open(router.endpoint, Tls.folder(folder / "robot-arm-7"))
            return
        with pytest.raises(CannotOpen):
            bounded_open(router.endpoint, Tls.folder(folder / "robot-arm-7"))
    finally:
        router.close()
