"""Nodes that others connect to: sizes, lists, and files that change."""

import itertools
import shutil
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from lefleet.certs.authority import Authority
from lefleet.certs.listener import TlsFiles, listener, size_limits
from lefleet.certs.x509 import PemPair, make_leaf, new_serial
from lefleet.errors import BadInput
from lefleet_client import wire
from lefleet_client.remote import RemotePolicy
from lefleet_client.transport import (
    ACTION,
    OBSERVATION,
    BadSettings,
    Tls,
    ZenohSettings,
    ZenohTransport,
)
from tests.certs.fleet import FREE_TLS_PORT, make_certificates
from tests.client.remote.scripted import ScriptedServer, observation
from tests.client.transport.networks import FREE_PORT, QUICK, Router, endpoint_of
from tests.client.transport.test_tls import certificates as foreign_certificates
from tests.client.transport.waiting import LONG_S, Log, until

KEYS = wire.ServiceKeys("act", "main", "fold").server("a").client("arm")
LARGEST_QUESTION = 64 << 10


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("listener") / "certs"
    make_certificates(folder)
    return folder


@pytest.fixture
def hub(certificates, tmp_path):
    return shutil.copytree(certificates / "server-hub", tmp_path / "hub")


def settings_of(folder, **fields) -> ZenohSettings:
    usual = {"mode": "router", "listen": (FREE_TLS_PORT,), "tls": Tls.folder(folder)}
    return ZenohSettings(**{**usual, **fields})


@pytest.fixture(params=["router", "server"])
def nodes(request):
    """A robot and a server, with the size limits where they meet."""
    limits = {"low_pass_filter": size_limits()}
    if request.param == "router":
        router = Router(FREE_PORT, **limits)
        settings = ZenohSettings(connect=(router.endpoint,))
        with ZenohTransport.open(settings) as robot, ZenohTransport.open(settings) as server:
            yield robot, server
        router.close()
    else:
        settings = ZenohSettings(mode="peer", listen=(FREE_PORT,), extra={**QUICK, **limits})
        with ZenohTransport.open(settings) as server:
            connect = (endpoint_of(server._session, "peer"),)
            with ZenohTransport.open(ZenohSettings(connect=connect)) as robot:
                yield robot, server


def test_a_question_that_is_too_large_does_not_arrive(nodes):
    robot, server = nodes
    asked = Log()
    server.serve(KEYS.session, lambda question: asked.add(len(question.payload)) or b"yes")
    # The first answer also shows that the question is served by now.
    while not robot.ask(KEYS.session, bytes(LARGEST_QUESTION), LONG_S).replies:
        pass
    assert robot.ask(KEYS.session, bytes(LARGEST_QUESTION + 1), 0.3).replies == ()
    assert robot.ask("@lefleet/**", bytes(LARGEST_QUESTION + 1), 0.3).replies == ()
    assert set(asked) == {LARGEST_QUESTION}


@pytest.mark.parametrize("part", ["payload", "attachment"])
def test_a_chunk_that_is_too_large_does_not_arrive(nodes, part):
    sender, receiver = nodes
    sizes, ready, heard = Log(), Log(), threading.Event()

    def deposit(sample):
        sizes.add(len(sample.payload) + len(sample.attachment))
        heard.set()

    receiver.subscribe(KEYS.action, deposit)
    token = receiver.announce(KEYS.alive)
    sender.watch(KEYS.alive, ready.add)
    ready.wait(len)
    publisher = sender.publisher(KEYS.action, ACTION)
    too_large = bytes(wire.CHUNK.limits.max_bytes + 2048)
    publisher.put(*((too_large, b"") if part == "payload" else (b"", too_large)))
    # The link may still be busy with it, and then drops what follows.
    until(lambda: publisher.put(b"end", b""), heard)
    assert set(sizes) == {3}
    token.close()


def test_a_flood_of_observations_ends_at_the_link_of_its_robot(hub, certificates):
    """Behind a router all robots share the link to the server: what arrives there delays others."""
    settings = listener(settings_of(hub, extra=QUICK))
    with ExitStack() as stack:
        hub_node = stack.enter_context(ZenohTransport.open(settings))
        connect = (endpoint_of(hub_node._session, "router"),)
        server, robot = (
            stack.enter_context(ZenohTransport.open(ZenohSettings(connect=connect, tls=tls)))
            for tls in map(Tls.folder, (certificates / "server-a", certificates / "robot-arm"))
        )
        numbers, ready = Log(), Log()
        server.subscribe(KEYS.obs, lambda one: numbers.add(int(one.payload)))
        server.announce(wire.ServiceKeys("act", "main", "fold").server("a").alive)
        robot.watch(wire.ServiceKeys("act", "main", "fold").server("a").alive, ready.add)
        ready.wait(len)
        publisher = robot.publisher(KEYS.obs, OBSERVATION)
        for number in itertools.count():
            publisher.put(str(number).encode(), b"")
            if len(numbers) >= 5:
                break
    assert max(numbers) > 2 * len(numbers)


def test_honest_bodies_are_within_the_limits():
    limits = {one["id"]: one["size_limit"] for one in size_limits()}
    assert limits["question"] == LARGEST_QUESTION
    assert limits["publication"] > wire.OBSERVATION.limits.max_bytes
    assert limits["answer"] >= wire.SESSION_REPLY.limits.max_bytes


def test_a_node_that_listens_has_its_list_and_one_that_connects_has_none(hub):
    assert listener(settings_of(hub)).extra["access_control"]["default_permission"] == "deny"
    connecting = settings_of(hub, mode="peer", listen=(), connect=("tls/10.0.0.5:7447",))
    assert set(listener(connecting).extra) == {"low_pass_filter"}
    assert set(listener(ZenohSettings(mode="peer")).extra) == {"low_pass_filter"}


def test_zenohs_own_settings_of_the_user_come_last(hub):
    extra = {"access_control": {"enabled": False}}
    assert listener(settings_of(hub, extra=extra)).extra["access_control"] == {"enabled": False}


def test_an_insecure_node_is_logged(caplog):
    settings = ZenohSettings(mode="peer", listen=("tcp/0.0.0.0:0",), insecure=True)
    listener(settings)
    assert "event=insecure listen=tcp/0.0.0.0:0 " in caplog.text


def test_a_node_with_a_list_joins_no_other_router(hub):
    with pytest.raises(BadInput, match=r"^connect: .*cannot join a router"):
        listener(settings_of(hub, connect=("tls/10.0.0.5:7447",)))


def test_a_node_that_listens_needs_a_servers_certificate(certificates):
    with pytest.raises(BadSettings, match=r"robot-arm, .* role server is needed"):
        listener(settings_of(certificates / "robot-arm"))


def test_a_folder_without_its_list_is_refused(hub, caplog):
    """Copied in part, it would let everybody do everything."""
    (hub / "access.json").unlink()
    with pytest.raises(BadInput, match=r"^tls\.access: .*server-hub .*Copy access\.json"):
        listener(settings_of(hub))
    assert "event=certificate_warning" in caplog.text, "they are made for 20 days"


def test_without_a_list_a_foreign_certificate_is_logged(tmp_path, caplog):
    tls = foreign_certificates(tmp_path / "own", trustme.CA())
    assert "access_control" not in listener(settings_of("", tls=tls)).extra
    assert "event=no_access_list" in caplog.text


def test_files_change_only_when_all_of_them_can_be_used(hub, certificates, caplog):
    files = TlsFiles(settings_of(hub))
    assert not files.has_changed()
    (hub / "access.json").write_text("{")
    assert [files.has_changed() for _ in range(3)] == [False] * 3
    assert caplog.text.count("event=tls_files_not_used") == 1
    shutil.copy(certificates / "access.json", hub)
    assert files.has_changed()
    assert not files.has_changed()
    with Authority(certificates, datetime.now(UTC)) as authority:
        authority.renew("hub", [], 20)
    for name, is_used in (("robot-arm", False), ("server-a", False), ("server-hub", True)):
        folder = certificates / name
        shutil.copy(folder / "key.pem", hub / "new").replace(hub / "key.pem")
        assert not files.has_changed(), "the key is not that of the certificate yet"
        shutil.copy(folder / "cert.pem", hub / "new").replace(hub / "cert.pem")
        assert files.has_changed() is is_used, "it stays who it is"
    for name in ("access.json", "key.pem", "cert.pem", "ca.pem"):
        (hub / name).unlink()
        assert not files.has_changed()
        (hub / name).mkdir()
        assert not files.has_changed()


def test_the_list_of_a_node_that_only_connects_does_not_matter(hub):
    settings = settings_of(hub, mode="peer", listen=(), connect=("tls/10.0.0.5:7447",))
    files = TlsFiles(settings)
    (hub / "access.json").unlink()
    assert not files.has_changed()
    assert not TlsFiles(ZenohSettings(connect=("tcp/127.0.0.1:1",))).has_changed()


def test_a_link_ends_with_its_certificate(certificates, tmp_path):
    """The certificate is checked when a link is made; Zenoh also ends the link when it expires."""
    own = certificates / "authority"
    authority = PemPair((own / "ca.pem").read_bytes(), (own / "ca.key").read_bytes())
    now = datetime.now(UTC)
    pair = make_leaf(
        authority,
        "robot-arm",
        (),
        may_listen=False,
        serial=new_serial(),
        now=now,
        expires=now + timedelta(seconds=4),
    )
    shutil.copy(own / "ca.pem", tmp_path)
    (tmp_path / "cert.pem").write_bytes(pair.cert)
    (tmp_path / "key.pem").write_bytes(pair.key)
    hub = settings_of(certificates / "server-hub", mode="peer", extra=QUICK)
    presence = Log()
    with ZenohTransport.open(listener(hub)) as server:
        server.watch(KEYS.alive, lambda _, is_alive: presence.add(is_alive))
        connect = (endpoint_of(server._session, "peer"),)
        settings = ZenohSettings(connect=connect, tls=Tls.folder(tmp_path), open_timeout_s=LONG_S)
        with ZenohTransport.open(settings) as robot:
            robot.announce(KEYS.alive)
            assert presence.wait(lambda seen: len(seen) == 2) == [True, False]


def test_a_robot_at_two_servers_that_listen_fails_over(certificates):
    """It is a peer of both, and both have the list."""
    with ExitStack() as stack:
        servers = {}
        for name in ("a", "b"):
            settings = settings_of(certificates / f"server-{name}", mode="peer", extra=QUICK)
            node = stack.enter_context(ZenohTransport.open(listener(settings)))
            servers[name] = (endpoint_of(node._session, "peer"), ScriptedServer(node, name))
        endpoints = [endpoint for endpoint, _ in servers.values()]
        robot = RemotePolicy(endpoints, "fold", tls=certificates / "robot-arm", timeout_s=LONG_S)
        with robot:
            first = robot.infer(observation()).server
            servers.pop(first)[1].close()
            assert {robot.infer(observation()).server} == set(servers)
