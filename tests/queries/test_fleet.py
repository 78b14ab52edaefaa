"""Which robot has trouble, since when and on which server: from one look, from many, and live."""

import threading
import time
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from lefleet.errors import LeFleetError
from lefleet.queries.fleet import FleetFound, FleetMemory, fleet_status
from lefleet.queries.fleet_watch import FleetWatch
from lefleet.queries.words import clock
from lefleet_client.remote import RemotePolicy, RobotReport, RobotsFound, example_observation
from lefleet_client.stream import ActionStream, StreamSettings
from lefleet_client.testing import MemoryNetwork, MemoryTransport
from lefleet_client.transport import ZenohSettings, ZenohTransport
from lefleet_client.wire import RobotStatus, matching_robots
from tests.client.transport.networks import FREE_PORT, Router
from tests.client.transport.waiting import Log, eventually
from tests.server.samples import status as server_status
from tests.server.test_processes import Server

LONG_S = 60.0
NOW = 1_000_000.0
EVIL = "<script>alert(1)</script>"


def robot(name: str, state: str = "streaming", **rest) -> RobotStatus:
    return RobotStatus(client_id=name, state=state, **rest)


def found(*robots: RobotStatus, silent: tuple[str, ...] = (), servers=()) -> FleetFound:
    return FleetFound(tuple(servers), RobotsFound(robots, silent))


@pytest.mark.parametrize(
    ("one", "trouble"),
    [
        (robot("a"), "none"),
        (robot("a", warnings=("latency outside the envelope",)), "attention"),
        (robot("a", clamped=3), "none"),
        (robot("a", age_s=6.0), "bad"),
        (robot("a", "connecting", state_s=1.0), "none"),
        (robot("a", "connecting", state_s=9.0), "attention"),
        (robot("a", "degraded", buffer_ms=100.0), "attention"),
        (robot("a", "stalled"), "bad"),
        (robot("a", "stalled", paused=True), "none"),
        (robot("a", "reconnecting", buffer_ms=100.0), "attention"),
        (robot("a", "reconnecting"), "bad"),
        (robot("a", "dead", paused=True), "bad"),
        (robot("a", "of a newer robot"), "attention"),
    ],
)
def test_how_bad_a_state_is(one, trouble):
    (card,) = fleet_status(found(one), NOW).robots
    assert card.trouble == trouble


def test_the_worst_robot_is_first_with_its_state_time_and_server():
    left = server_status(service="fold", server="left")
    looked = found(
        robot("fine", service="fold", server="left", state_s=99.0),
        robot("late", "degraded", service="fold", server="left", buffer_ms=9.0, state_s=2.0),
        robot("new", "stalled", service="fold", server="gone", state_s=3.0, age_s=1.0),
        robot("old", "stalled", service="fold", server="left", state_s=70.0, reason="no chunk"),
        silent=("mute",),
        servers=(left,),
    )
    status = fleet_status(looked, NOW)
    assert [one.name for one in status.robots] == ["old", "new", "mute", "late", "fine"]
    assert [one.name for one in status.troubled()] == ["old", "new", "mute", "late"]
    old, new, mute, *_ = status.robots
    assert (old.state_text, old.server, old.trouble_since) == (
        "stalled for 1 min 10 s", "left", NOW - 70.0,
    )  # fmt: skip
    assert old.remarks == ("no chunk",)
    assert new.trouble_since == NOW - 4.0
    assert new.remarks == ("server gone does not answer",)
    assert (mute.state, mute.state_text) == ("silent", "no answer")


def test_trouble_lasts_from_one_state_to_the_next_and_ends_with_streaming():
    memory = FleetMemory()
    memory.look(found(robot("a", "stalled", state_s=2.0, server="left")), NOW)
    (card,) = memory.look(found(robot("a", "reconnecting", state_s=0.5)), NOW + 5).robots
    assert (card.since_s, card.trouble_since) == (0.5, NOW - 2.0)
    (card,) = memory.look(found(robot("a")), NOW + 6).robots
    assert (card.trouble, card.trouble_since) == ("none", None)
    (card,) = memory.look(found(robot("a", "stalled", state_s=1.0)), NOW + 9).robots
    assert card.trouble_since == NOW + 8.0


def test_a_robot_that_left_in_trouble_is_not_forgotten():
    memory = FleetMemory()
    dead = robot("a", "dead", server="left", reason="no chunk for 60 s")
    memory.look(found(dead, robot("b", server="left")), NOW)
    late = memory.look(found(), NOW + 1)
    assert {one.state for one in late.robots} == {"dead", "streaming"}
    a, b = memory.look(found(), NOW + 30).robots
    assert (a.name, a.state, a.state_text) == ("a", "gone", "left 30 s ago, was dead")
    assert (a.trouble, a.server, a.remarks[0]) == ("bad", "left", "no chunk for 60 s")
    assert (b.state_text, b.trouble) == ("left 30 s ago, was streaming", "none")
    assert memory.look(found(), NOW + 3600).robots == ()


def test_a_silent_robot_keeps_what_was_known_of_it():
    memory = FleetMemory()
    memory.look(found(robot("arm 1", server="left", task="fold")), NOW)
    memory.look(found(silent=("arm-1",)), NOW + 2)
    (card,) = memory.look(found(silent=("arm-1",)), NOW + 12).robots
    assert (card.name, card.server, card.task) == ("arm 1", "left", "fold")
    assert (card.state_text, card.trouble_since) == ("no answer for 10 s", NOW + 2)
    (card,) = memory.look(found(robot("arm 1", server="left")), NOW + 13).robots
    assert (card.trouble, card.state) == ("none", "streaming")


def test_the_last_state_of_a_robot_without_news_is_not_its_state_now():
    memory = FleetMemory()
    memory.look(found(robot("a", server="left")), NOW)
    (card,) = memory.look(found(robot("a", server="left", state_s=3.0, age_s=8.0)), NOW + 8).robots
    assert (card.state, card.since_s, card.trouble_since) == ("silent", 8.0, NOW)
    assert card.state_text == f"no news since {clock(NOW, with_seconds=True)}, was streaming"
    assert not card.is_heard()
    (card,) = memory.look(found(robot("a", server="left")), NOW + 9).robots
    assert (card.state, card.trouble, card.is_heard()) == ("streaming", "none", True)


def test_invented_robots_do_not_fill_the_memory():
    memory = FleetMemory()
    for look in range(5):
        memory.look(found(*(robot(f"{look}-{n}", "dead") for n in range(300))), NOW + look)
    assert len(memory.look(found(), NOW + 9).robots) <= 800


def test_two_robots_with_one_name_are_both_shown():
    cards = fleet_status(found(robot("a"), robot("a", "stalled")), NOW).robots
    assert [one.state for one in cards] == ["stalled", "streaming"]
    assert all("2 robots report under this name" in one.remarks for one in cards)
    assert cards[1].trouble == "attention"


def test_percentiles_are_taken_over_chunks_that_were_seen_and_each_counts_once():
    client = server_status().clients[0]
    memory = FleetMemory()

    def look(answered: int, wait_ms: float):
        served = replace(client, answered=answered, queue_wait_ms=wait_ms, inference_ms=5.0)
        return memory.look(found(servers=(server_status(clients=(served,)),)), NOW).servers[0]

    assert look(0, 0.0).queue_wait is None
    for answered, wait_ms in ((1, 10.0), (1, 10.0), (2, 20.0), (3, 30.0)):
        card = look(answered, wait_ms)
    assert (card.queue_wait.chunks, card.queue_wait.p50_ms) == (3, 20.0)
    assert card.queue_wait.p95_ms == pytest.approx(29.0)
    assert card.inference.p95_ms == 5.0


@pytest.fixture
def router():
    router = Router(FREE_PORT)
    yield router
    router.close()


def node(router: Router) -> ZenohTransport:
    return ZenohTransport.open(ZenohSettings(connect=(router.endpoint,)))


@contextmanager
def watching(router: Router):
    before = set(threading.enumerate())
    watch = FleetWatch(lambda: node(router))
    try:
        yield watch
    finally:
        watch.close()
    assert "fleet watch" not in {one.name for one in set(threading.enumerate()) - before}


def until(watch: FleetWatch, is_true) -> None:
    eventually(lambda: is_true(watch.status()), LONG_S)


@contextmanager
def streaming(router: Router, name: str):
    """A robot whose control loop asks a server for chunks, until the block ends."""
    policy = RemotePolicy(router.endpoint, "test", client_id=name, timeout_s=1.0)
    contract = policy.ack.capabilities.contract
    settings = StreamSettings(fps=contract.fps, max_action_age_s=1.0, degraded_after_s=0.3)
    stream = ActionStream(policy, settings, action_names=contract.action_names, task="fold")
    is_over = threading.Event()

    def control() -> None:
        while not is_over.wait(1 / contract.fps):
            stream.notify(example_observation(contract))
            stream.next_action()

    loop = threading.Thread(target=control, name="control")
    stream.start()
    stream.reset()
    stream.resume()
    loop.start()
    try:
        yield
    finally:
        is_over.set()
        loop.join()
        stream.stop()


@pytest.mark.slow
def test_a_killed_server_shows_as_trouble_of_its_robot_since_then(router, checkpoint_of):
    server = Server(checkpoint_of("act_environment"), router, "gpu-box").ready()
    try:
        with watching(router) as watch, streaming(router, "arm"):
            until(watch, lambda one: [r.state for r in one.robots] == ["streaming"])
            until(watch, lambda one: one.servers and one.servers[0].inference)
            before = watch.status()
            (card,) = before.servers
            assert (card.server, card.service, card.sessions) == ("gpu-box", "test", 1)
            assert [one.robot for one in card.clients] == ["arm"]
            assert before.robots[0].trouble == "none"
            killed_at = time.time()
            server.kill()
            until(watch, lambda one: one.robots[0].trouble == "bad" and not one.servers)
            (troubled,) = watch.status().troubled()
            assert (troubled.name, troubled.server, troubled.task) == ("arm", "gpu-box", "fold")
            # It may have been degraded already when the server was killed.
            assert killed_at - 5 < troubled.trouble_since <= time.time()
            assert any("gpu-box" in one for one in troubled.remarks)
            assert watch.status().problem == ""
        with watching(router) as watch:
            assert watch.status(wait_s=LONG_S).robots == ()
    finally:
        if server.process.poll() is None:
            server.kill()


def test_hostile_names_are_only_data(router):
    with node(router) as other, RobotReport(other, EVIL) as report, watching(router) as watch:
        report.publish(
            RobotStatus(client_id=EVIL, state=EVIL, reason=EVIL, server=EVIL, warnings=(EVIL,))
        )
        until(watch, lambda one: one.robots and one.robots[0].state == EVIL)
        (card,) = watch.status().robots
        assert (card.name, card.server) == (EVIL, EVIL)
        assert EVIL in card.remarks


def test_a_robot_whose_program_hangs_is_silent(router):
    with node(router) as other, watching(router) as watch:
        other.announce(matching_robots("frozen").alive)
        until(watch, lambda one: [r.state for r in one.robots] == ["silent"])
        until(watch, lambda one: one.robots[0].since_s > 1)


def test_without_a_network_it_says_how_to_get_one_and_sees_it_come_and_go(monkeypatch):
    monkeypatch.setattr("lefleet.queries.fleet_watch._EVERY_S", 0.2)
    monkeypatch.setattr("lefleet.queries.fleet_watch._LONGEST_WAIT_S", 0.5)
    router = Router(FREE_PORT)
    endpoint = router.endpoint
    router.close()
    settings = ZenohSettings(connect=(endpoint,), open_timeout_s=0.3)
    watch = FleetWatch(lambda: ZenohTransport.open(settings))
    try:
        status = watch.status(wait_s=LONG_S)
        assert endpoint in status.problem
        assert "lefleet serve RUN" in status.problem
        router = Router(endpoint)
        until(watch, lambda one: one.problem == "")
        with node(router) as other, RobotReport(other, "arm") as report:
            report.publish(robot("arm", "stalled"))
            until(watch, lambda one: [r.state for r in one.robots] == ["stalled"])
            router.close()
            until(watch, lambda one: one.problem and one.robots[0].state == "gone")
            assert watch.status().troubled()[0].name == "arm"
            router = Router(endpoint)
            until(watch, lambda one: [r.state for r in one.robots] == ["stalled"])
    finally:
        watch.close()
        router.close()


class Counting:
    """Opens nodes of a network in memory."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.opened: list[MemoryTransport] = []

    def __call__(self) -> MemoryTransport:
        self.opened.append(MemoryTransport(self.network))
        return self.opened[-1]


def test_nothing_is_opened_before_somebody_asks_and_all_is_closed_later(monkeypatch):
    monkeypatch.setattr("lefleet.queries.fleet_watch._WANTED_S", 0.3)
    connect = Counting()
    watch = FleetWatch(connect)
    assert connect.opened == []
    with RobotReport(MemoryTransport(connect.network), "arm"):
        assert watch.status(wait_s=LONG_S).robots[0].name == "arm"
        assert len(connect.opened) == 1
        eventually(lambda: watch._newest.at is None and watch._node is None)
        assert watch.status(wait_s=LONG_S).at is not None
        assert len(connect.opened) == 2
    watch.close()
    watch.close()
    assert watch._node is None


def test_subscribers_are_told_and_one_that_fails_disturbs_nobody(caplog):
    watch, log = FleetWatch(Counting()), Log()
    watch.subscribe(lambda _: 1 / 0)
    end = watch.subscribe(log.add)
    watch.status()
    log.wait(lambda items: items)
    end()
    end()
    watch.close()
    assert log[0].at is not None
    assert "a subscriber to the fleet failed" in caplog.text


def test_what_connect_raises_is_reported():
    def refuse():
        raise LeFleetError("tls: the certificate has expired.", "Is the clock right?")

    watch = FleetWatch(refuse)
    problem = watch.status(wait_s=LONG_S).problem
    assert "the certificate has expired. Is the clock right? Start a server with" in problem
    watch.close()


def test_robots_are_not_asked_where_an_access_list_forbids_it():
    connect = Counting()
    watch = FleetWatch(connect, reads_robots=False)
    with RobotReport(MemoryTransport(connect.network), "arm"):
        assert watch.status(wait_s=LONG_S).robots == ()
    watch.close()


def test_how_robots_differ_from_training_is_told_beside_their_server():
    client = replace(server_status().clients[0], warnings=("top: 96 x 96, trained with 288 x 288",))
    (server,) = fleet_status(found(servers=(server_status(clients=(client,)),)), NOW).servers
    assert server.clients[0].warnings == ("top: 96 x 96, trained with 288 x 288",)
