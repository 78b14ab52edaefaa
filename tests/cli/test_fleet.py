"""fleet and ping: servers and robots as a table and as JSON, and where the time goes."""

import json
import re
import signal
import sys
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import msgspec
import pytest
from rich.console import Console

from lefleet.certs.authority import Authority
from lefleet.cli.fleet_view import FleetView, tables
from lefleet.queries.fleet import FleetFound, fleet_status
from lefleet.queries.words import clock
from lefleet.server.capture import CapturedModel, CaptureRing, read_captures
from lefleet.server.manifest import CaptureSettings
from lefleet_client import wire
from lefleet_client.remote import RemotePolicy, RobotReport, RobotsFound
from lefleet_client.transport import Tls, ZenohSettings, ZenohTransport
from lefleet_client.wire import ROBOT_STATUS, STATUS, RobotStatus, ServiceKeys, matching_robots
from tests.certs.fleet import fleet as new_fleet
from tests.certs.fleet import make_certificates
from tests.cli.child import Child
from tests.client.remote.scripted import ScriptedServer
from tests.client.transport.networks import FREE_PORT, Router
from tests.client.transport.programs import run_in_loops
from tests.policy import tiny
from tests.server.samples import status
from tests.server.serving import loaded, manifest_of, serving


@pytest.fixture
def router():
    router = Router(FREE_PORT)
    yield router
    router.close()


EVIL = "\x1b]0;owned\x07arm\nforged \x9b2J"


@pytest.fixture
def hostile(router):
    """Servers whose every name, and whose robot's names, are commands for a terminal."""
    with ZenohTransport.open(ZenohSettings(connect=(router.endpoint,))) as transport:
        robot = msgspec.structs.replace(
            status().clients[0],
            client_id=EVIL,
            robot_type=EVIL,
            image_codec=EVIL,
            warnings=(EVIL,),
        )
        served = msgspec.structs.replace(
            status().capabilities, model=EVIL, revision=EVIL, serving_mode=EVIL, digest=EVIL
        )
        told = status(service=EVIL, server=EVIL, capabilities=served)
        key = ServiceKeys(EVIL, EVIL, EVIL).server(EVIL).status
        transport.serve(key, lambda _: STATUS.encode(told))
        visited = status(service="good", server="good", clients=(robot,))
        good = ServiceKeys("lerobot/act", "main", "good").server("good").status
        transport.serve(good, lambda _: STATUS.encode(visited))
        broken = ServiceKeys("m", "main", "broken").server("broken").status
        transport.serve(broken, lambda _: b"no status")
        for name, told in (("evil", EVIL), ("late", "fine")):
            liar = RobotStatus(client_id=name, state=told, reason=told, warnings=(told,))
            transport.serve(
                matching_robots(name).status, lambda _, liar=liar: ROBOT_STATUS.encode(liar)
            )
        yield


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["fleet"], "?]0;owned?arm?forged"),
        (["ping", "sew", "--timeout-s", "0.5"], "Available services: good."),
    ],
)
def test_names_of_others_cannot_command_the_terminal(lefleet, router, hostile, command, text):
    _, out, err = lefleet(*command, "--connect", router.endpoint)
    assert text in out + err
    assert all(letter.isprintable() for letter in (out + err).replace("\n", ""))
    assert not any(line.startswith("forged") for line in (out + err).splitlines())


def test_a_warning_on_the_terminal_is_one_harmless_line(router, hostile, tmp_path):
    with Child("fleet", "--connect", router.endpoint, folder=tmp_path) as child:
        assert child.end() == 0
    assert len(child.err) == 2
    for warning in child.err:
        assert " level=warning logger=lefleet_client.remote.discovery event=log " in warning


@pytest.fixture
def servers(router):
    """Two replicas of one service and a server of another one, as far as a fleet looks at them."""
    with ZenohTransport.open(ZenohSettings(connect=(router.endpoint,))) as transport:
        for service, name in (("fold", "left"), ("fold", "right"), ("pour", "third")):
            told = status(
                service=service, server=name, draining=name == "right", insecure=name == "third"
            )
            key = ServiceKeys("lerobot/act", "main", service).server(name).status
            transport.serve(key, lambda _, told=told: STATUS.encode(told))
        yield


def test_every_server_and_robot_is_in_the_table(lefleet, router, servers):
    code, out, err = lefleet("fleet", "--connect", router.endpoint)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    (right,) = [line for line in lines if " right " in line and "fold" in line]
    assert "draining" in right
    assert [" third " in line for line in lines if "ready, insecure" in line] == [True]
    robot = status().clients[0].client_id
    assert len([line for line in lines if line.startswith(f" {robot} ")]) == 3
    (warning,) = status().clients[0].warnings
    assert [line for line in lines if warning in line] == [
        f"{robot} on {server}: {warning}" for server in ("left", "right", "third")
    ]


def test_json_is_the_status_of_each(lefleet, router, servers):
    code, out, _ = lefleet("fleet", "--connect", router.endpoint, "--json")
    assert code == 0
    found = json.loads(out)["servers"]
    assert [(one["service"], one["server"]) for one in found] == [
        ("fold", "left"),
        ("fold", "right"),
        ("pour", "third"),
    ]


@pytest.fixture
def robots(router):
    """One that streams and one in trouble, as far as they report; the third is silent."""
    settings = ZenohSettings(connect=(router.endpoint,))
    with ExitStack() as stack:
        node = stack.enter_context(ZenohTransport.open(settings))
        arm, leg = (stack.enter_context(RobotReport(node, name)) for name in ("arm-1", "leg-2"))
        arm.publish(
            RobotStatus(
                client_id="arm-1",
                state="streaming",
                state_s=130.0,
                service="fold",
                server="left",
                action_age_ms=180.4,
                buffer_ms=420.0,
                round_trip_p95_ms=61.0,
                image_codec="jpeg",
                episode_id=7,
                clamped=3,
                warnings=("latency outside the envelope",),
            )
        )
        leg.publish(
            RobotStatus(
                client_id="leg-2",
                state="stalled",
                paused=True,
                service="pour",
                reason="the queue is empty",
                fallbacks=12,
                reconnects=2,
            )
        )
        node.announce(matching_robots("frozen").alive)
        yield


def cells(out: str, name: str) -> list[str]:
    (line,) = [line for line in out.splitlines() if line.strip().startswith(f"{name} ")]
    return re.split(r"\s{2,}", line.strip())


def test_robots_are_shown_as_they_report_beside_their_sessions(lefleet, router, servers, robots):
    code, out, err = lefleet("fleet", "--connect", router.endpoint, "--timeout-s", "0.5")
    assert (code, err) == (0, "")
    assert cells(out, "arm-1") == [
        "arm-1", "streaming for 2 min 10 s", "180 ms", "420 ms", "0", "0", "61 ms", "jpeg", "left",
        "7", "guard: 3 clamped; latency outside the envelope",
    ]  # fmt: skip
    assert cells(out, "leg-2") == [
        "leg-2", "stalled for 0 s, paused", "0 ms", "0 ms", "12", "2", "0 ms", "0",
        "the queue is empty",
    ]  # fmt: skip
    assert cells(out, "frozen") == [
        "frozen",
        "? no answer",
        "its program runs, but does not answer",
    ]
    heads = [line.split()[0] for line in out.splitlines() if " server " in f"{line} "]
    assert heads == ["service", "robot", "session"]


def test_robots_in_json_are_their_statuses(lefleet, router, servers, robots):
    where = ("--connect", router.endpoint, "--timeout-s", "0.5")
    _, out, _ = lefleet("fleet", *where, "--json")
    found = json.loads(out)
    assert [(one["client_id"], one["state"]) for one in found["robots"]] == [
        ("arm-1", "streaming"),
        ("leg-2", "stalled"),
    ]
    assert found["silent_robots"] == ["frozen"]
    _, out, _ = lefleet("fleet", "pour", *where, "--json")
    assert [one["client_id"] for one in json.loads(out)["robots"]] == ["leg-2"]


def test_robots_without_servers_are_shown_and_the_code_is_1(lefleet, router, robots):
    where = ("--connect", router.endpoint, "--timeout-s", "0.5")
    code, out, err = lefleet("fleet", *where)
    assert (code, err) == (1, "")
    assert out.startswith("No servers. Start one with: lefleet serve\n")
    assert cells(out, "leg-2")[1] == "stalled for 0 s, paused"
    code, out, _ = lefleet("fleet", "pour", *where)
    assert code == 1
    assert "arm-1" not in out


def test_a_robot_without_news_is_noticed():
    quiet = RobotStatus(client_id="arm", state="streaming", state_s=60.0, age_s=90.0)
    found = FleetFound((), RobotsFound((quiet,), ()))
    shown = Console(width=240)
    with shown.capture() as capture:
        shown.print(tables(FleetView(found, fleet_status(found, 1_000_000.0))))
    last = clock(1_000_000.0 - 90.0, with_seconds=True)
    assert f"? no news since {last}, was streaming" in capture.get()
    assert "no news for 1 min 30 s: its program may hang" in capture.get()
    assert "streaming for" not in capture.get()


def test_one_service_can_be_looked_at(lefleet, router, servers):
    _, out, _ = lefleet("fleet", "pour", "--connect", router.endpoint, "--json")
    assert [one["server"] for one in json.loads(out)["servers"]] == ["third"]


def test_without_servers_it_says_so_and_ends_with_1(lefleet, router):
    code, out, _ = lefleet("fleet", "--connect", router.endpoint)
    assert code == 1
    assert out.startswith("No servers.")


def test_a_service_without_servers_is_answered_with_those_there_are(lefleet, router, servers):
    code, out, _ = lefleet("fleet", "sew", "--connect", router.endpoint)
    assert (code, out) == (1, "No server offers sew. Available services: fold, pour.\n")
    code, out, _ = lefleet("fleet", "sew", "--connect", router.endpoint, "--json")
    assert code == 1
    assert json.loads(out) == {"servers": [], "robots": [], "silent_robots": []}


def test_a_service_where_there_is_no_server_at_all(lefleet, router):
    code, out, _ = lefleet("fleet", "sew", "--connect", router.endpoint)
    assert (code, out.partition(".")[0]) == (1, "No servers")


def test_looking_once_and_for_ever_is_refused(lefleet):
    code, out, err = lefleet("fleet", "--once", "--watch")
    assert (code, out) == (2, "")
    assert err == "lefleet: once, watch: they contradict each other. Give one of them.\n"


def test_watching_ends_with_an_interrupt_even_where_sigint_is_ignored_at_first(
    router, servers, tmp_path
):
    arguments = ("fleet", "--connect", router.endpoint, "--watch", "--json")
    with Child(*arguments, folder=tmp_path) as child:
        child.wait_for(lambda one: len(one.out) >= 2)
        child.signal(signal.SIGINT)
        assert child.end() == 0
    assert [len(json.loads(line)["servers"]) for line in child.out[:2]] == [3, 3]
    assert child.err == []


@pytest.mark.parametrize("command", [["fleet"], ["ping", "fold"]])
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--connect", "tcp/127.0.0.1:1", "--timeout-s", "0.5"], 1, "tcp/127.0.0.1:1"),
        (["--connect", "tls/127.0.0.1:1"], 2, "needs tls.ca"),
        (["--tls.key", "k"], 2, "tls.ca, tls.cert: missing"),
        (["--timeout-s", "0"], 2, "timeout_s: "),
    ],
)
def test_what_does_not_work_is_said_in_one_line(lefleet, command, arguments, code, words):
    found, out, err = lefleet(*command, *arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_servers_certificate_is_refused(lefleet, tmp_path):
    """It may ask no server anything, so that no server would seem to run."""
    make_certificates(tmp_path)
    code, _, err = lefleet(
        "fleet", "--connect", "tls/127.0.0.1:1", "--tls", str(tmp_path / "server-a")
    )
    assert code == 2
    assert "the role operator or robot is needed" in err


def test_a_ping_of_an_unknown_service_names_the_services_there_are(lefleet, router, servers):
    code, _, err = lefleet("ping", "sew", "--connect", router.endpoint, "--timeout-s", "0.5")
    assert code == 1
    assert "fold" in err
    assert err.count("\n") == 1


def test_a_ping_of_no_requests_is_bad_input(lefleet):
    assert lefleet("ping", "fold", "--count", "0")[0] == 2


@contextmanager
def server(router, folder, policy, **settings):
    node = ZenohSettings(connect=(router.endpoint,))
    with (
        ZenohTransport.open(node) as transport,
        serving(folder, policy, transport, **settings) as service,
    ):
        yield service


def test_a_policy_that_looks_back_gets_all_the_frames_it_looks_at(router, lefleet, tmp_path):
    folder = tiny.diffusion_history(tmp_path / "policy", n_obs_steps=3)
    policy = loaded(folder)
    ring = CaptureRing(
        CaptureSettings(dir=str(tmp_path / "ring")), CapturedModel.of(manifest_of(folder))
    )
    with ring, server(router, folder, policy, capture=ring):
        code, _, err = lefleet("ping", "test", "--connect", router.endpoint, "--count", "1")
    assert code == 0, err
    asked = [
        wire.OBSERVATION.decode(capture.request.observation)
        for _, capture in read_captures(tmp_path / "ring")
    ]
    assert [len(one.history) for one in asked] == [2, 2]
    for one in asked:
        for frame in one.history:
            assert frame.vectors.keys() == one.vectors.keys()
            assert frame.images.keys() == one.images.keys()


@pytest.fixture
def lab(tmp_path):
    """Folders of certificates for a router, a robot and an operator."""
    Authority.create(tmp_path / "certs", 10, datetime.now(UTC))
    with Authority(tmp_path / "certs", datetime.now(UTC)) as authority:
        authority.issue("server", "hub", ["127.0.0.1"], 10)
        authority.issue("operator", "ann", [], 10)
        authority.issue("robot", "arm-7", [], 10)
    return tmp_path / "certs"


def test_an_operator_pings_under_the_name_in_the_certificate(lab, lefleet):
    tls = Tls.folder(lab / "server-hub")
    router = Router("tls/127.0.0.1:0", tls)
    node = ZenohSettings(connect=(router.endpoint,), tls=tls)
    ping = ("ping", "fold", "--connect", router.endpoint, "--count", "1", "--tls")
    try:
        with ZenohTransport.open(node) as transport:
            server = ScriptedServer(transport)
            code, _, err = lefleet(*ping, str(lab / "operator-ann"))
            assert code == 0, err
            assert [one.client_id for one in server.opens] == ["ann"]
            code, _, err = lefleet(*ping, str(lab / "robot-arm-7"))
            assert code == 2
            assert "the certificate of robot-arm-7" in err
            assert len(server.opens) == 1
    finally:
        router.close()


def test_an_operator_sees_robots_and_a_robot_is_told_that_it_may_not(tmp_path, lefleet):
    make_certificates(tmp_path / "certs")
    with (
        new_fleet(tmp_path / "certs", "router") as network,
        RobotReport(network.node("robot-arm"), "arm") as report,
    ):
        report.publish(RobotStatus(client_id="arm", state="degraded"))
        where = ("fleet", "--connect", network.endpoint, "--json", "--tls")
        code, out, err = lefleet(*where, str(tmp_path / "certs" / "operator-jo"))
        assert (code, err) == (0, "")
        assert [one["state"] for one in json.loads(out)["robots"]] == ["degraded"]
        code, out, err = lefleet(*where, str(tmp_path / "certs" / "robot-leg"))
        assert code == 0
        assert "lefleet certs operator NAME" in err
        found = json.loads(out)
        assert (len(found["servers"]), found["robots"]) == (1, [])


def test_a_server_that_is_taken_says_so_in_one_line(router, lefleet, tmp_path):
    folder = tiny.act_environment(tmp_path / "policy")
    policy = loaded(folder, serving_mode="exclusive")
    with (
        server(router, folder, policy) as service,
        RemotePolicy(router.endpoint, "test", client_id="arm"),
    ):
        code, out, err = lefleet("ping", "test", "--connect", router.endpoint)
        name = service.status().server
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == (
        f"lefleet: server {name} refused the session (capacity): the one session of this server is "
        "taken: the manifest says so. A ping needs a free session; see which robots hold them: "
        "lefleet fleet"
    )


@pytest.mark.chaos
def test_no_ping_of_three_hundred_aborts_at_its_end(router):
    settings = ZenohSettings(connect=(router.endpoint,))
    with ZenohTransport.open(settings) as transport:
        ScriptedServer(transport)
        ping = ["ping", "fold", "--connect", router.endpoint, "--count", "1"]
        assert run_in_loops([sys.executable, "-m", "lefleet", *ping], 300) == {(0, "")}
