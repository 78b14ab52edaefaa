"""A router as a command: robots and servers meet there."""

import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from lefleet.certs.access import access_control, read_access
from lefleet.certs.authority import Authority
from lefleet.cli.network import open_again, open_node
from lefleet.cli.signals import StoppedEarly, StopSignals
from lefleet_client.remote import RemoteError, RemotePolicy
from lefleet_client.transport import CannotOpen, Tls, ZenohSettings, ZenohTransport
from lefleet_client.wire import ServiceKeys, matching_servers
from tests.certs.fleet import FREE_TLS_PORT, make_certificates
from tests.cli.child import Child, reserved_port
from tests.client.remote.scripted import ScriptedServer, hurried, observation
from tests.client.transport.networks import Router
from tests.client.transport.test_tls import certificates
from tests.client.transport.waiting import LONG_S, Log, eventually


@pytest.fixture
def port():
    with reserved_port() as port:
        yield port


def test_a_reserved_port_is_not_given_to_another_socket(port):
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.usefixtures("default_hangup")
def test_nodes_that_connect_to_it_see_each_other(tmp_path, port, number):
    endpoint = f"tcp/127.0.0.1:{port}"
    settings = ZenohSettings(connect=(endpoint,))
    with Child("router", "--listen", endpoint, folder=tmp_path) as router:
        router.wait_for(lambda child: child.out)
        assert endpoint in router.out[0]
        seen = Log()
        with ZenohTransport.open(settings) as robot, ZenohTransport.open(settings) as server:
            robot.watch("test/*", seen.add)
            server.announce("test/a")
            seen.wait_for(("test/a", True))
        router.signal(number)
        assert router.end() == 0
        assert router.err == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--listen", "tls/127.0.0.1:0"], 2, "needs tls.ca, tls.cert and tls.key"),
        (["--listen", "tls/127.0.0.1:0", "--tls.ca", "c"], 2, "tls.cert, tls.key: missing"),
        (["--listen", "nonsense"], 2, "nonsense"),
        (
            ["--listen", "tcp/0.0.0.0:0"],
            2,
            "'tcp/0.0.0.0:0' is beyond this machine and not encrypted",
        ),
        (["--connect", "tcp/10.0.0.5:1"], 2, "'tcp/10.0.0.5:1' is beyond this machine"),
        (["--tls", "f", "--tls.ca", "c"], 2, "tls: the folder and single files are given"),
    ],
)
def test_a_mistake_is_one_line(lefleet, arguments, code, words):
    found, out, err = lefleet("router", *arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_port_that_is_taken_names_the_flag_for_another(lefleet):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        code, _, err = lefleet("router", "--listen", endpoint)
    assert code == 1
    assert "another program listens there" in err
    assert "For instance: --listen tcp/127.0.0.1:" in err
    assert err.count("\n") == 1


def test_with_certificates_only_those_of_the_authority_get_in(tmp_path, port, lefleet):
    authority = trustme.CA()
    ours = _flags(certificates(tmp_path / "ours", authority))
    foreign = _flags(certificates(tmp_path / "foreign", trustme.CA()))
    endpoint = f"tls/127.0.0.1:{port}"
    where = ("--connect", endpoint, "--timeout-s", "0.5")
    folder = ("--tls", str(tmp_path / "ours"))
    with Child("router", "--listen", endpoint, *ours, folder=tmp_path) as router:
        router.wait_for(lambda child: child.out)
        _, out, err = lefleet("fleet", *where, *ours)
        assert out.startswith("No servers.")
        assert "lefleet certs list" in err
        assert lefleet("fleet", *where, *folder)[1].startswith("No servers.")
        code, out, err = lefleet("fleet", *where, *foreign)
        assert (code, out) == (1, "")
        assert "certificates" in err


def _flags(tls: Tls) -> list[str]:
    return ["--tls.ca", tls.ca, "--tls.cert", tls.cert, "--tls.key", tls.key]


def test_a_running_router_takes_up_a_new_access_list(tmp_path, port):
    """Robots in the middle of a loop survive that, except the one that was revoked."""
    folder = tmp_path / "certs"
    make_certificates(folder)
    endpoint = f"tls/127.0.0.1:{port}"
    flags = ("--listen", endpoint, "--tls", str(folder / "server-hub"))
    settings = ZenohSettings(mode="peer", connect=(endpoint,), tls=Tls.folder(folder / "server-a"))
    with Child("router", *flags, folder=tmp_path) as router, ExitStack() as stack:
        router.wait_for(lambda child: child.out)
        ScriptedServer(stack.enter_context(ZenohTransport.open(settings)))
        arm, leg = (stack.enter_context(robot(endpoint, folder, name)) for name in ("arm", "leg"))
        leg.infer(observation())
        change(folder, lambda authority: authority.revoke("leg"))
        ask_until(arm, lambda: events(router, "reopened") == 1)
        with hurried(leg, 1.0), pytest.raises(RemoteError):
            leg.infer(observation())
        (folder / "server-hub" / "access.json").write_text("{")
        ask_until(arm, lambda: events(router, "tls_files_not_used") == 1)
        change(folder, lambda authority: authority.issue("robot", "new", [], 20))
        ask_until(arm, lambda: events(router, "reopened") == 2)
        assert stack.enter_context(robot(endpoint, folder, "new")).infer(observation())
        router.signal(signal.SIGTERM)
        assert router.end() == 0


def test_servers_behind_a_router_learn_of_each_other_under_one_name(tmp_path):
    """Zenoh forwards nothing between two peers of one router."""
    make_certificates(tmp_path)
    hub, tls = Tls.folder(tmp_path / "server-hub"), Tls.folder(tmp_path / "server-a")
    extra = {"access_control": access_control(read_access(hub.access))}
    key = matching_servers(server="a").alive
    with ExitStack() as stack:
        router = Router(FREE_TLS_PORT, tls=hub, **extra)
        stack.callback(router.close)
        settings = ZenohSettings(mode="peer", connect=(router.endpoint,), tls=tls)
        nodes = [stack.enter_context(open_node(settings, StopSignals())) for _ in range(2)]
        seen = Log()
        nodes[0].watch(key, seen.add)
        own = ServiceKeys("m", "r", "test").server("a").alive
        nodes[1].announce(own)
        seen.wait_for((own, True))


def test_a_server_waits_for_its_router(port, caplog):
    endpoint = f"tcp/127.0.0.1:{port}"
    settings = ZenohSettings(mode="peer", connect=(endpoint,), open_timeout_s=0.2)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(open_node, settings, StopSignals())
        eventually(lambda: "event=waiting_for_router" in caplog.text)
        router = Router(endpoint)
        opening.result(LONG_S).close()
        router.close()


def test_a_signal_ends_the_wait_for_a_router(port):
    signals = StopSignals()
    signals.stop()
    settings = ZenohSettings(mode="peer", connect=(f"tcp/127.0.0.1:{port}",), open_timeout_s=0.2)
    with pytest.raises(StoppedEarly):
        open_node(settings, signals)


def test_a_node_that_cannot_be_opened_again_is_tried_until_it_can(caplog):
    signals = StopSignals()
    with socket.create_server(("127.0.0.1", 0)) as taken, ThreadPoolExecutor(1) as pool:
        endpoint = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        opening = pool.submit(open_again, ZenohSettings(mode="router", listen=(endpoint,)), signals)
        eventually(lambda: "event=not_reopened" in caplog.text)
        taken.close()
        opening.result(LONG_S).close()


def test_a_signal_ends_the_attempts_to_open_a_node_again():
    signals = StopSignals()
    signals.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        settings = ZenohSettings(mode="router", listen=(endpoint,))
        with pytest.raises(CannotOpen):
            open_again(settings, signals)


def robot(endpoint: str, folder: Path, name: str) -> RemotePolicy:
    tls = folder / f"robot-{name}"
    return RemotePolicy(endpoint, "fold", client_id=name, tls=tls, timeout_s=LONG_S)


def change(folder: Path, how: Callable[[Authority], object]) -> None:
    with Authority(folder, datetime.now(UTC)) as authority:
        how(authority)


def events(child: Child, name: str) -> int:
    return sum(f"event={name} " in line for line in child.err)


def ask_until(policy: RemotePolicy, condition: Callable[[], bool]) -> None:
    """Keep asking, and once more afterwards; every call is answered."""
    until_s = time.monotonic() + LONG_S
    while not condition():
        assert policy.infer(observation()).server == "a"
        assert time.monotonic() < until_s
    assert policy.infer(observation()).server == "a"
