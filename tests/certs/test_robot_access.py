"""Who may report a robot's state, and who may read it, under access lists over TLS."""

import itertools
import random
from contextlib import suppress

import pytest
import zenoh

from lefleet.certs.access import AccessList, access_control
from lefleet.certs.listener import size_limits
from lefleet_client import wire
from lefleet_client.remote import RobotReport, RobotsFound, discover_robots, watch_robots
from lefleet_client.transport import ACTION, NoAnswer
from tests.certs.fleet import SHORT_S, Attacker, declared, make_certificates, settle
from tests.certs.fleet import fleet as new_fleet
from tests.client.transport.waiting import LONG_S, Log, eventually

ARM, GHOST, EVERY = (wire.matching_robots(name) for name in ("arm", "ghost", ""))
NUMBERS = itertools.count(1)


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
def report(fleet):
    """The honest robot `arm`."""
    with fleet.node("robot-arm") as node, RobotReport(node, "arm") as report:
        yield report


class Reader:
    """The operator jo: whom it finds, and what it is told."""

    def __init__(self, node) -> None:
        self.node = node
        self.told = Log()
        self.presence = Log()
        watch_robots(node, self.told.add)
        node.watch(EVERY.alive, self.presence.add)

    def wait_until(self, key: str, *, is_alive: bool) -> None:
        """Whatever was seen of it before."""

        def is_last(seen: list) -> bool:
            return [one for one in seen if one[0] == key][-1:] == [(key, is_alive)]

        self.presence.wait(is_last)

    def found(self) -> dict[str, str]:
        return {one.client_id: one.state for one in discover_robots(self.node, LONG_S).robots}


@pytest.fixture(scope="module")
def reader(fleet, report):
    with fleet.node("operator-jo") as node:
        reader = Reader(node)
        reader.presence.wait_for((ARM.alive, True))
        yield reader


def tell(report: RobotReport, reader: Reader) -> None:
    """Publish something new, again until the operator has heard it."""
    new = wire.RobotStatus(client_id="arm", state="streaming", executed=next(NUMBERS))

    def is_told() -> bool:
        report.publish(new)
        return new in reader.told

    eventually(is_told)


def attackers(*params):
    return pytest.fixture(params=params, ids=" as ".join, scope="module")


@attackers(
    ("robot-leg", "client"),
    ("robot-leg", "router or peer"),
    ("operator-jo", "client"),
    ("server-b", "client"),
    ("robot-sold", "client"),
)
def forger(request, fleet, report):
    holder, mode = request.param
    if mode != "client":
        mode = "router" if fleet.is_routed else "peer"
    with fleet.node(holder, mode) as node:
        yield Attacker(node, holder)


@attackers(
    ("robot-leg", "client"),
    ("robot-leg", "router or peer"),
    ("server-b", "client"),
    ("robot-sold", "client"),
)
def spy(request, fleet, report):
    holder, mode = request.param
    if mode != "client":
        mode = "router" if fleet.is_routed else "peer"
    with fleet.node(holder, mode) as node:
        yield Attacker(node, holder)


def test_an_operator_finds_watches_and_sees_robots_come_and_go(fleet, report, reader):
    tell(report, reader)
    leg = wire.matching_robots("leg")
    with fleet.node("robot-leg") as node, RobotReport(node, "leg") as second:
        second.publish(wire.RobotStatus(client_id="leg", state="stalled"))
        reader.wait_until(leg.alive, is_alive=True)
        assert reader.found() == {"arm": "streaming", "leg": "stalled"}
    reader.wait_until(leg.alive, is_alive=False)
    assert reader.found() == {"arm": "streaming"}


def test_a_robot_that_does_not_answer_is_named(fleet, report, reader):
    tell(report, reader)
    leg = wire.matching_robots("leg")
    with fleet.node("robot-leg") as node:
        node.announce(leg.alive)
        reader.wait_until(leg.alive, is_alive=True)
        assert discover_robots(reader.node, LONG_S).silent == ("leg",)
    reader.wait_until(leg.alive, is_alive=False)


def test_nobody_reports_under_another_name(fleet, report, reader, forger):
    tell(report, reader)
    lie = {
        name: wire.ROBOT_STATUS.encode(wire.RobotStatus(client_id=name, state="forged"))
        for name in ("arm", "ghost")
    }
    forged = [forger.node.announce(keys.alive) for keys in (ARM, GHOST)]
    forged += [
        forger.node.serve(key, lambda _: lie["arm"])
        for key in (ARM.status, EVERY.status, "@lefleet/**")
    ]
    forged.append(forger.node.serve(GHOST.status, lambda _: lie["ghost"]))
    publishers = [(forger.node.publisher(keys.status, ACTION), name) for keys, name in (
        (ARM, "arm"), (GHOST, "ghost"),
    )]  # fmt: skip
    with declared(*forged, *(one for one, _ in publishers)):
        for publisher, name in publishers:
            publisher.put(lie[name], b"")
        settle(fleet, forger)
        tell(report, reader)
        found = discover_robots(reader.node, LONG_S)
        assert {one.client_id: one.state for one in found.robots} == {"arm": "streaming"}
        assert found.silent == ()
        assert GHOST.alive not in reader.node.present(EVERY.alive, LONG_S)
    assert [one for one in reader.told if one.state == "forged"] == []
    assert (ARM.alive, False) not in reader.presence


def test_robots_and_servers_do_not_read_the_state_of_others(fleet, report, reader, spy):
    heard = Log()
    keys = (ARM.status, EVERY.status, "@lefleet/robots/**", "@lefleet/**")
    watches = [spy.node.subscribe(key, lambda one: heard.add(one.key)) for key in keys]
    watches += [spy.node.watch(key, heard.add) for key in (ARM.alive, EVERY.alive)]
    with declared(*watches):
        settle(fleet, spy)
        tell(report, reader)
        for key in keys:
            assert spy.node.ask(key, b"", SHORT_S).replies == ()
        with suppress(NoAnswer):
            assert spy.node.present(EVERY.alive, SHORT_S) == frozenset()
        settle(fleet, spy)
    assert heard == []
    assert discover_robots(spy.node, SHORT_S) == RobotsFound((), ())


@pytest.mark.parametrize("rounds", [5, pytest.param(500, marks=pytest.mark.chaos)])
def test_whatever_keys_are_tried_nothing_comes_of_it(fleet, report, reader, spy, rounds):
    """Random keys around the real ones, used in every way that Zenoh has."""
    rng, heard = random.Random(rounds), Log()
    forged = wire.ROBOT_STATUS.encode(wire.RobotStatus(client_id="arm", state="forged"))

    def hear(one) -> bytes:
        if one.payload not in (forged, b""):  # otherwise it is the attacker's own
            heard.add(one)
        return forged

    for _ in range(rounds):
        declarations = []
        for _ in range(10):
            name = rng.choice(("arm", "ARM", "arm-b", "ghost", "*", "a$*", "$*m"))
            word = rng.choice(("status", "alive", "*", "**"))
            key = str(zenoh.KeyExpr.autocanonize(f"@lefleet/robots/{name}/{word}"))
            declarations.append(spy.node.subscribe(key, hear))
            declarations.append(spy.node.serve(key, hear))
            declarations.append(spy.node.announce(key.replace("$*", "x").replace("*", "x")))
            spy.node._session.put(key, forged)
            spy.node._session.delete(key)
            spy.node.ask(key, forged, 0.02)
        with declared(*declarations):
            settle(fleet, spy)
            tell(report, reader)
            assert reader.found() == {"arm": "streaming"}
        assert heard == []
    assert [one for one in reader.told if one.state == "forged"] == []
    assert {key for key, _ in reader.presence} <= {ARM.alive, "@lefleet/robots/leg/alive"}


def test_only_robots_report_and_only_operators_read():
    control = access_control(AccessList(servers=("a",), robots=("arm",), operators=("jo",)))
    rules = {rule["id"]: rule["key_exprs"] for rule in control["rules"]}
    assert len(rules) == len(control["rules"])
    of_robots = {
        rule: [key for key in keys if key.startswith("@lefleet/robots/")]
        for rule, keys in rules.items()
    }
    granted = {rule: keys for rule, keys in of_robots.items() if keys}
    assert granted == {
        "robot-arm ingress put": [ARM.status],
        "robot-arm ingress declare_queryable": [ARM.status],
        "robot-arm ingress reply": [ARM.status],
        "robot-arm ingress liveliness_token": [ARM.alive],
        "robot-arm egress query": [EVERY.status],
        "robot-arm egress declare_subscriber": [EVERY.status],
        "operator-jo ingress query": [EVERY.status],
        "operator-jo ingress declare_subscriber": [EVERY.status],
        "operator-jo ingress liveliness_query": [EVERY.alive],
        "operator-jo ingress declare_liveliness_subscriber": [EVERY.alive],
        "operator-jo egress reply": [EVERY.status],
        "operator-jo egress put": [EVERY.status],
        "operator-jo egress declare_queryable": [EVERY.status],
        "operator-jo egress liveliness_token": [EVERY.alive],
    }
    assert set(granted).isdisjoint(rule for rule in rules if rule.startswith("server-"))


def test_the_largest_status_of_a_robot_is_within_the_size_limits():
    limits = {one["id"]: one["size_limit"] for one in size_limits()}
    largest = wire.ROBOT_STATUS.limits.max_bytes
    assert limits["robot answer"] == largest < limits["robot status"] < limits["chunk"]
