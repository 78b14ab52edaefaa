"""Access lists: what they say, and what robots, operators and servers cannot do under them.

The attackers use Zenoh as they like, as client, peer or router, with a valid certificate.
"""

import json
import random
import re
from contextlib import ExitStack
from typing import NamedTuple

import pytest
import zenoh

from lefleet.certs.access import AccessList, access_control, read_access
from lefleet.errors import BadInput
from lefleet_client import wire
from lefleet_client.remote import NoServer, RemotePolicy, discover
from lefleet_client.transport import (
    ACTION,
    CannotOpen,
    Transport,
    ZenohSettings,
    ZenohTransport,
)
from tests.certs.fleet import SERVERS, SHORT_S, A, Attacker, declared, make_certificates, settle
from tests.certs.fleet import fleet as new_fleet
from tests.client.remote.scripted import ScriptedServer, observation, server_status
from tests.client.transport.waiting import LONG_S, Log, eventually

GHOST = SERVERS.server("ghost")
ARM = A.client("arm")


class HonestRobot(NamedTuple):
    policy: RemotePolicy
    node: Transport


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("access") / "certs"
    make_certificates(folder)
    return folder


@pytest.fixture(params=["router", "server"], scope="module")
def fleet(request, folder):
    with new_fleet(folder, request.param) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def honest(fleet):
    """A robot that is served before, during and after the attacks."""
    node = fleet.node("robot-arm")
    with RemotePolicy(fleet.endpoint, "fold", client_id="arm", transport=node) as policy:
        policy.infer(observation(image=True))
        yield HonestRobot(policy, node)


@pytest.fixture(
    params=[
        ("robot-leg", "client"),
        ("robot-leg", "router or peer"),
        ("operator-jo", "client"),
        ("server-b", "client"),
        ("robot-sold", "client"),
    ],
    ids=" as ".join,
    scope="module",
)
def attacker(request, fleet, honest):
    """A router forwards nothing between peers, and a server nothing for routers."""
    holder, mode = request.param
    if mode != "client":
        mode = "router" if fleet.is_routed else "peer"
    with fleet.node(holder, mode) as node:
        yield Attacker(node, holder)


def test_a_dead_server_is_not_kept_alive(fleet, honest, attacker):
    forged = [attacker.node.announce(GHOST.alive), attacker.node.announce(A.client("ghost").alive)]
    with declared(*forged):
        settle(fleet, attacker)
        alive = honest.node.present(wire.matching_servers().alive, LONG_S)
        assert GHOST.alive not in alive
        assert not fleet.server.client_alive("ghost")
    assert honest.policy.infer(observation()).server == "a"


def test_no_question_to_a_server_is_answered_by_another(fleet, honest, attacker):
    asked = Log()

    def lure(question):
        asked.add(question.key)
        return wire.STATUS.encode(server_status("ghost"))

    forged = [
        attacker.node.serve(key, lure)
        for key in (A.status, GHOST.status, wire.matching_servers().status, "@lefleet/**")
    ]
    forged += [attacker.node.serve(ARM.session, lure), attacker.node.serve(ARM.reset, lure)]
    with declared(*forged):
        settle(fleet, attacker)
        found = discover(honest.node, timeout_s=SHORT_S)
        assert [one.server for one in found] == ["a"]
        honest.policy.reset()
        assert honest.policy.infer(observation()).server == "a"
    if attacker.holder != "server-b":
        assert asked == []


def test_no_session_is_opened_under_a_foreign_name(fleet, honest, attacker):
    before = len(fleet.server.opens), len(fleet.server.closes), len(fleet.server.resets)
    request = wire.SESSION_REQUEST.encode(wire.SessionClose(client_id="arm", session_id="a-1"))
    reset = wire.RESET.encode(wire.Reset(session_id="a-1", session_epoch=1, episode_id=9))
    for name in ("arm", "ghost"):
        assert attacker.node.ask(A.client(name).session, request, SHORT_S).replies == ()
        assert attacker.node.ask(A.client(name).reset, reset, SHORT_S).replies == ()
    assert attacker.node.ask(A.any_client.session, request, SHORT_S).replies == ()
    # The last two are what Zenoh says about its nodes.
    for everything in ("@lefleet/**", "**", "@/*/router/**", "@/*/peer/**"):
        assert attacker.node.ask(everything, request, SHORT_S).replies == ()
    assert (len(fleet.server.opens), len(fleet.server.closes), len(fleet.server.resets)) == before
    assert honest.policy.infer(observation()).server == "a"


def test_nothing_of_another_robot_is_heard(fleet, honest, attacker):
    heard = Log()
    keys = (ARM.action, A.any_client.action, ARM.obs, A.any_client.obs, "@lefleet/**", "**")
    watches = [attacker.node.subscribe(key, lambda one: heard.add(one.key)) for key in keys]
    watches += [attacker.node.watch(key, heard.add) for key in (ARM.alive, A.any_client.alive)]
    with declared(*watches):
        settle(fleet, attacker)
        honest.policy.infer(observation())
        assert attacker.node.ask(ARM.alive, b"", SHORT_S).replies == ()
        own = f"/{attacker.holder.partition('-')[2]}/alive"
        assert [one for one in heard if not str(one[0]).endswith(own)] == []


def test_nothing_is_forged_for_another_robot_or_as_it(fleet, honest, attacker):
    chunks = Log()
    spy = honest.node.subscribe(ARM.action, lambda sample: chunks.add(sample.attachment))
    honest.policy.infer(observation())
    chunks.wait(len)
    before = len(fleet.server.observations), len(fleet.server.sessionless)
    header = wire.Header(wire.MessageType.OBSERVATION, 7, 2**32 - 1, 7, 7).pack()
    forged = [
        attacker.node.publisher(key, ACTION) for key in (ARM.obs, ARM.action, A.client("x").obs)
    ]
    with declared(spy, *forged):
        for publisher in forged:
            publisher.put(wire.OBSERVATION.encode(wire.Observation()), header)
        settle(fleet, attacker)
        chunk = honest.policy.infer(observation(2.0))
        assert chunk.robot[0, 0] == 12
        assert header not in chunks
    heard = [one.header.episode_id for one in fleet.server.observations[before[0] :]]
    heard += [one.header.episode_id for one in fleet.server.sessionless[before[1] :]]
    assert 2**32 - 1 not in heard


@pytest.mark.parametrize("rounds", [5, pytest.param(500, marks=pytest.mark.chaos)])
def test_whatever_keys_are_tried_nothing_comes_of_it(fleet, honest, attacker, rounds):
    """Random keys and patterns around the real ones, used in every way that Zenoh has."""
    rng, server, heard = random.Random(rounds), fleet.server, Log()
    forged = wire.SESSION_REQUEST.encode(wire.SessionClose(client_id="arm", session_id="a-1"))
    header = wire.Header(wire.MessageType.OBSERVATION, 7, 2**32 - 1, 7, 7).pack()

    def hear(one) -> bytes:
        if one.payload not in (forged, b""):  # otherwise it is the attacker's own
            heard.add(one)
        return forged

    for _ in range(rounds):
        before = len(server.closes), len(server.resets), len(server.sessionless)
        with ExitStack() as stack:
            for _ in range(10):
                key = random_key(rng)
                for declare in (attacker.node.subscribe, attacker.node.serve):
                    stack.callback(declare(key, hear).close)
                token = attacker.node.announce(re.sub(r"\$?\*+", "x", key))
                stack.callback(token.close)
                attacker.node._session.put(key, forged, attachment=header)
                attacker.node._session.delete(key)
                attacker.node.ask(key, forged, 0.02)
            settle(fleet, attacker)
            assert honest.policy.infer(observation()).server == "a"
            assert [one.server for one in discover(honest.node, timeout_s=LONG_S)] == ["a"]
        assert (len(server.closes), len(server.resets), len(server.sessionless)) == before
        assert {one.client for one in server.observations} <= {"arm", "jo"}
        assert heard == []


def random_key(rng: random.Random) -> str:
    """Of the server `a` or another one, for any client but the attacker; names that are nearly the
    right ones, and patterns that include them."""
    base = [rng.choice((part, "*", "other")) for part in ("lerobot-act", "main", "fold")]
    word = rng.choice(("obs", "action", "session", "reset", "alive", "status", "*"))
    client = rng.choice(("arm", "ARM", "arm-b", "ghost", "*", "a$*", "$*m", "$*r$*"))
    ends = (f"c/{client}/{word}", word, "**", f"**/{word}")
    server = rng.choice(("a", "A", "arm", "leg", "ghost", "*", "$*a"))
    key = "/".join(["@lefleet", *base, "s", server, rng.choice(ends)])
    return str(zenoh.KeyExpr.autocanonize(key))


def test_the_id_of_another_node_gives_no_rights_and_does_no_harm(fleet, honest):
    """Zenoh tells nodes apart by an id that they choose themselves."""
    for victim in (fleet.server_node, honest.node):
        settings = ZenohSettings(
            connect=(fleet.endpoint,),
            tls=fleet.tls("robot-leg"),
            open_timeout_s=SHORT_S,
            extra={"id": str(victim._session.zid())},
        )
        with pytest.raises(CannotOpen):
            ZenohTransport.open(settings)
        assert honest.policy.infer(observation()).server == "a"


def test_an_operator_sees_servers_and_pings_under_its_own_name(fleet):
    node = fleet.node("operator-jo")
    assert [one.server for one in discover(node, timeout_s=LONG_S)] == ["a"]
    with RemotePolicy(fleet.endpoint, "fold", client_id="jo", transport=node) as policy:
        assert policy.infer(observation()).server == "a"


def test_a_second_server_is_found_by_robots(fleet, honest):
    with fleet.node("server-b") as node:
        ScriptedServer(node, "b")
        # What a node declares reaches robots behind a router a moment later.
        eventually(
            lambda: {one.server for one in discover(honest.node, timeout_s=LONG_S)} == {"a", "b"}
        )


def test_a_revoked_robot_finds_no_server(fleet):
    with pytest.raises(NoServer, match=r"either\. .*lefleet certs list"):
        RemotePolicy(
            fleet.endpoint, "fold", client_id="sold", tls=fleet.tls("robot-sold"), timeout_s=SHORT_S
        )


@pytest.mark.parametrize("names", [("*",), ("a/b",), ("**",), ("$*",), ("",), ("s",), ("a", "a")])
def test_a_list_with_names_that_would_mean_more_is_refused(tmp_path, names):
    path = tmp_path / "access.json"
    path.write_text(json.dumps({"version": 1, "servers": [], "robots": names, "operators": []}))
    with pytest.raises(BadInput, match=r"access\.json: .*lefleet certs"):
        read_access(path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "robot": []}'])
def test_a_list_that_cannot_be_read_is_named(tmp_path, text):
    path = tmp_path / "access.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"access\.json"):
        read_access(path)
    with pytest.raises(BadInput, match=r"none\.json cannot be read"):
        read_access(tmp_path / "none.json")


def test_nobody_is_on_an_empty_list():
    control = access_control(AccessList())
    assert (control["enabled"], control["default_permission"]) == (True, "deny")
    assert control["rules"] == control["subjects"] == []


def test_every_rule_allows_and_stays_within_the_tree():
    control = access_control(AccessList(servers=("a",), robots=("arm",), operators=("jo",)))
    assert {rule["permission"] for rule in control["rules"]} == {"allow"}
    keys = [key for rule in control["rules"] for key in rule["key_exprs"]]
    assert all(key.startswith("@lefleet/") and "**" not in key for key in keys)
    names = [one["cert_common_names"] for one in control["subjects"]]
    assert names == [["server-a"], ["robot-arm"], ["operator-jo"]]
