"""What robots report of themselves: found, watched, silent, and never believed unchecked."""

import threading
import time

import msgspec
import pytest

from lefleet_client import wire
from lefleet_client.remote import RobotReport, discover_robots, watch_robots
from lefleet_client.transport import ACTION, NoAnswer, ZenohFailed
from tests.client.transport.waiting import LONG_S, SHORT_S, Log, eventually
from tests.client.wire.samples import robot_status

KEYS = wire.matching_robots("arm")


def status(client_id="arm", state="streaming", **fields) -> wire.RobotStatus:
    return wire.RobotStatus(client_id=client_id, state=state, **fields)


def unaged(one: wire.RobotStatus) -> wire.RobotStatus:
    return msgspec.structs.replace(one, age_s=0.0)


def found_by(node):
    found = discover_robots(node, LONG_S)
    return [unaged(one) for one in found.robots], found.silent


@pytest.fixture
def report(world):
    with RobotReport(world.network.node(), "arm") as report:
        yield report


@pytest.fixture
def reader(world):
    return world.network.node()


def test_robots_are_found_as_they_report(any_world):
    network = any_world.network
    reader = network.node()
    with (
        RobotReport(network.node(), "leg") as leg,
        RobotReport(network.node(), "arm 1") as arm,
    ):
        network.settle()
        told = msgspec.structs.replace(robot_status(), age_s=0.0)
        arm.publish(told)
        leg.publish(status("leg", "stalled", reason="the queue is empty"))
        found = discover_robots(reader, LONG_S)
        assert found.silent == ()
        assert [unaged(one) for one in found.robots] == [
            told,
            status("leg", "stalled", reason="the queue is empty"),
        ]
        assert all(one.age_s < LONG_S for one in found.robots)
    network.settle()
    assert found_by(reader) == ([], ())


def test_before_its_first_status_a_robot_is_connecting(report, reader):
    assert found_by(reader) == ([status(state="connecting")], ())


def test_an_answer_says_how_old_it_is(report, reader):
    """A worker that hangs must not look healthy, though questions are still answered."""
    report.publish(status())
    (first,) = discover_robots(reader, LONG_S).robots
    time.sleep(0.02)
    (second,) = discover_robots(reader, LONG_S).robots
    assert second.age_s >= first.age_s + 0.02
    report.publish(status())
    (third,) = discover_robots(reader, LONG_S).robots
    assert third.age_s < second.age_s


def test_every_status_is_pushed_to_those_who_watch(any_world):
    network = any_world.network
    with RobotReport(network.node(), "arm") as report:
        log = Log()
        watching = watch_robots(network.node(), log.add)
        network.settle()
        told = [status(), status(state="degraded", state_s=1.5), status(state="dead", reason="x")]
        for one in told:
            report.publish(one)
        assert log.wait(lambda items: len(items) == 3) == told
        watching.close()
        network.settle()
        report.publish(status())
        network.settle()
        assert len(log) == 3


@pytest.mark.parametrize("is_served", [True, False])
def test_a_robot_that_is_present_and_does_not_answer_is_named(world, reader, is_served):
    node, release = world.network.node(), threading.Event()
    node.announce(KEYS.alive)
    if is_served:
        node.serve(KEYS.status, lambda _: release.wait(LONG_S) and b"")
    with RobotReport(world.network.node(), "leg"):
        found = discover_robots(reader, SHORT_S)
    release.set()
    assert [one.client_id for one in found.robots] == ["leg"]
    assert found.silent == ("arm",)


def test_a_robot_that_leaves_while_it_is_asked_is_not_silent(world, reader):
    node = world.network.node()
    token = node.announce(KEYS.alive)

    def leave(_) -> bytes:
        token.close()
        return b""

    node.serve(KEYS.status, leave)
    assert discover_robots(reader, LONG_S).silent == ()


def test_where_nothing_is_known_of_presence_robots_are_found_by_their_answers(
    report, reader, monkeypatch
):
    def denied(*_):
        raise NoAnswer("denied")

    monkeypatch.setattr(reader, "present", denied)
    assert found_by(reader) == ([status(state="connecting")], ())


def test_keys_that_are_no_robots_are_no_silent_robots(world, reader, monkeypatch):
    keys = frozenset({"@lefleet/robots/s/alive", "@lefleet/robots/a b/alive", "x"})
    monkeypatch.setattr(reader, "present", lambda *_: keys)
    assert found_by(reader) == ([], ())


def test_two_robots_of_one_name_are_both_shown(world, report, reader):
    with RobotReport(world.network.node(), "arm") as second:
        second.publish(status(state="stalled"))
        report.publish(status())
        assert {one.state for one in discover_robots(reader, LONG_S).robots} == {
            "stalled",
            "streaming",
        }


LIES = {
    "another robot": {"client_id": "leg"},
    "a name that is no segment": {"client_id": "///"},
    "a reserved word": {"client_id": "status"},
    "a name that commands the terminal": {"client_id": "arm\x1b[2J"},
    "a state of two lines": {"state": "streaming\nforged"},
    "a reason that commands the terminal": {"reason": "\x9b2J"},
    "a task of two lines": {"task": "a\nb"},
    "a warning that commands the terminal": {"warnings": ("fine", "\x1b]0;owned\x07")},
    "a server with an override": {"server": "\u202egpu"},
}


@pytest.mark.parametrize("fields", LIES.values(), ids=LIES)
def test_a_status_that_cannot_be_of_its_key_is_ignored(world, reader, caplog, fields):
    body = wire.ROBOT_STATUS.encode(status(**fields))
    liar = world.network.node()
    liar.serve(KEYS.status, lambda _: body)
    log = Log()
    watch_robots(reader, log.add)
    publisher = liar.publisher(KEYS.status, ACTION)
    for _ in range(3):
        publisher.put(body, b"")
    with RobotReport(world.network.node(), "leg") as leg:
        leg.publish(status("leg"))
        log.wait_for(status("leg"))
        assert found_by(reader) == ([status("leg")], ())
    assert log == [status("leg")]
    assert [f"{KEYS.status}: the status is ignored: " in text for text in caplog.messages] == [
        True,
        True,
    ]
    assert all(text.isprintable() and len(text) < 800 for text in caplog.messages)


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", bytes(200_000)], ids=len)
def test_what_is_no_status_hides_no_other_and_is_a_silent_robot(world, report, reader, body):
    liar = world.network.node()
    keys = wire.matching_robots("liar")
    liar.announce(keys.alive)
    liar.serve(keys.status, lambda _: body)
    log = Log()
    watch_robots(reader, log.add)
    liar.publisher(keys.status, ACTION).put(body, b"")
    report.publish(status())
    log.wait_for(status())
    assert found_by(reader) == ([status()], ("liar",))
    assert log == [status()]


def test_texts_of_a_robot_are_cut_so_that_every_reader_accepts_them(report, reader):
    report.publish(
        status(
            state="reconnecting",
            reason="two\nlines " + "x" * 5000,
            task="t" * 3000,
            robot_type="\x1b" * 300,
            warnings=("w" * 2000,) * 20,
        )
    )
    (one,) = discover_robots(reader, LONG_S).robots
    assert one.reason.startswith("two lines xxx")
    assert one.reason.endswith("...")
    assert (len(one.reason), len(one.task), len(one.warnings)) == (1024, 2048, 16)


@pytest.mark.parametrize(
    "wrong",
    [{"state_s": float("nan")}, {"buffer_ms": -1.0}, {"client_id": "leg"}, {"state": ""}],
    ids=str,
)
def test_a_status_that_no_reader_accepts_is_logged_once_and_changes_nothing(
    report, reader, caplog, wrong
):
    report.publish(status())
    for _ in range(3):
        report.publish(msgspec.structs.replace(status(state="dead"), **wrong))
    (text,) = caplog.messages
    assert "@lefleet/robots/arm/status: the status is not published: " in text
    assert found_by(reader) == ([status()], ())


def test_a_network_that_fails_does_not_stop_a_robot(report, caplog, monkeypatch):
    def fail(*_):
        raise ZenohFailed("no more memory")

    monkeypatch.setattr(report._publisher, "put", fail)
    report.publish(status())
    report.publish(status())
    (text,) = caplog.messages
    assert "no more memory" in text


def test_closing_twice_and_publishing_afterwards_is_fine(world, reader, caplog):
    report = RobotReport(world.network.node(), "arm")
    report.close()
    report.close()
    report.publish(status())
    assert found_by(reader) == ([], ())
    assert caplog.messages == []


@pytest.mark.parametrize("name", ["status", "///", "x" * 300])
def test_a_robot_whose_name_is_no_segment_is_refused(world, name):
    with pytest.raises(wire.BadKey, match=r"^client: "):
        RobotReport(world.network.node(), name)


def test_a_failed_start_leaves_nothing_behind(world, reader, monkeypatch):
    node = world.network.node()

    def fail(_):
        raise ZenohFailed("no")

    monkeypatch.setattr(node, "announce", fail)
    with pytest.raises(ZenohFailed):
        RobotReport(node, "arm")
    assert reader.ask(KEYS.status, b"", LONG_S).replies == ()


def test_publishing_returns_at_once_while_questions_are_answered(any_world):
    """A thousand statuses while a reader asks without end."""
    network = any_world.network
    reader, done = network.node(), threading.Event()
    with RobotReport(network.node(), "arm") as report:
        network.settle()
        asked = Log()

        def ask() -> None:
            while not done.is_set():
                asked.add(discover_robots(reader, LONG_S).robots)

        thread = threading.Thread(target=ask)
        thread.start()
        longest_s = 0.0
        for number in range(1000):
            began_s = time.perf_counter()
            report.publish(status(executed=number))
            longest_s = max(longest_s, time.perf_counter() - began_s)
        eventually(lambda: len(asked) > 1)
        done.set()
        thread.join()
    assert longest_s < 1.0
    assert all(one.client_id == "arm" for robots in asked for one in robots)
