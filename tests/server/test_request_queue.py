"""Mailboxes that hold the newest request only, one request at a time for each robot, and turns."""

import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.server import request_queue
from lefleet.server.request_queue import Incoming, RequestQueue, RoundRobin, rests_until
from lefleet.server.session import Session
from lefleet_client import wire
from tests.server.samples import session


def incoming(seq_id: int, episode_id: int = 0) -> Incoming:
    return Incoming(wire.Header(wire.MessageType.OBSERVATION, seq_id, episode_id, 0), b"")


def queue_of(*sessions: Session, ahead: int = 8) -> RequestQueue:
    queue = RequestQueue(ahead)
    for one in sessions:
        queue.add(one)
    return queue


def answer_next(queue: RequestQueue) -> tuple[str, int]:
    job = queue.next_to_prepare()
    queue.put_prepared(job)
    assert queue.next_to_infer() is job
    queue.finish(job)
    return job.session.id, job.incoming.header.seq_id


def test_only_the_newest_request_is_answered_and_the_others_are_counted():
    robot = session("a")
    queue = queue_of(robot)
    for seq_id in range(5):
        queue.put(robot, incoming(seq_id))
    assert answer_next(queue) == ("a", 4)
    assert queue.superseded(robot) == 4
    assert queue.superseded(robot) == 0


def test_a_greedy_robot_gets_every_other_turn_and_no_more():
    greedy, modest = session("greedy"), session("modest")
    queue = queue_of(greedy, modest)
    grants = []
    for seq_id in range(20):
        for _ in range(10):
            queue.put(greedy, incoming(seq_id))
        queue.put(modest, incoming(seq_id))
        grants += [answer_next(queue)[0], answer_next(queue)[0]]
    assert grants.count("greedy") == grants.count("modest") == 20


def test_a_session_whose_request_failed_rests_while_others_are_served(monkeypatch):
    monkeypatch.setattr(request_queue, "_LONGEST_REST_S", 60.0)
    costly, modest = session("costly"), session("modest")
    queue = queue_of(costly, modest)
    queue.put(costly, incoming(1))
    queue.finish(queue.next_to_prepare(), wasted_s=60.0)
    for seq_id in range(2, 5):
        queue.put(costly, incoming(seq_id))
        queue.put(modest, incoming(seq_id))
        assert answer_next(queue) == ("modest", seq_id)
    assert not queue.wait_idle(0.0)


def test_a_session_is_served_again_when_it_has_rested():
    robot = session("a")
    queue = queue_of(robot)
    queue.put(robot, incoming(1))
    queue.finish(queue.next_to_prepare(), wasted_s=0.001)
    queue.put(robot, incoming(2))
    assert answer_next(queue) == ("a", 2)


@pytest.mark.parametrize(
    ("others_s", "wasted_s", "expected_s"),
    [
        (0.0, 0.01, 100.19),
        (100.5, 0.01, 100.69),  # others rest first: all together get a twentieth of a thread
        (100.5, 5.0, 101.0),
    ],
)
def test_sessions_rest_one_after_the_other(others_s, wasted_s, expected_s):
    assert rests_until(100.0, others_s, wasted_s) == pytest.approx(expected_s)


def test_many_sessions_that_fail_rest_longer_than_one(monkeypatch):
    """Four sessions with costly requests together got four times as much of a thread."""
    monkeypatch.setattr(request_queue, "_LONGEST_REST_S", 600.0)
    robots = [session(name) for name in "abcd"]
    queue = queue_of(*robots)
    for robot in robots:
        queue.put(robot, incoming(1))
    for job in [queue.next_to_prepare() for _ in robots]:
        queue.finish(job, wasted_s=1.0)
    ends = sorted(one.rests_until_s for one in queue._mailboxes.values())
    assert ends[-1] - ends[0] > 2 * 19 * 1.0


def test_a_robot_has_one_request_in_flight_at_most():
    first, other = session("a"), session("b")
    queue = queue_of(first, other)
    queue.put(first, incoming(1))
    job = queue.next_to_prepare()
    queue.put(first, incoming(2))
    queue.put(other, incoming(3))
    assert queue.next_to_prepare().session is other
    queue.put_prepared(job)
    queue.next_to_infer()
    queue.finish(job)
    assert queue.next_to_prepare().incoming.header.seq_id == 2


def test_only_so_much_is_prepared_ahead():
    robots = [session(name) for name in "abc"]
    queue = queue_of(*robots, ahead=1)
    for one in robots:
        queue.put(one, incoming(0))
    first = queue.next_to_prepare()
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(queue.next_to_prepare()), daemon=True)
    waiting.start()
    queue.put_prepared(first)
    assert not taken
    queue.next_to_infer()
    waiting.join(10)
    assert taken[0].session.id == "b"


@pytest.mark.parametrize("wait", [RequestQueue.next_to_prepare, RequestQueue.next_to_infer])
def test_closing_ends_every_wait(wait):
    queue = queue_of()
    ended = []
    thread = threading.Thread(target=lambda: ended.append(wait(queue)), daemon=True)
    thread.start()
    queue.close()
    thread.join(10)
    assert ended == [None]


def test_it_is_idle_when_nothing_waits_and_nothing_is_in_flight():
    robot = session("a")
    queue = queue_of(robot)
    assert queue.wait_idle(0)
    queue.put(robot, incoming(0))
    assert not queue.wait_idle(0)
    job = queue.next_to_prepare()
    assert not queue.wait_idle(0)
    queue.finish(job)
    assert queue.wait_idle(0)


def test_a_removed_robot_leaves_nothing_behind():
    robot = session("a")
    queue = queue_of(robot)
    queue.put(robot, incoming(0))
    queue.remove(robot)
    queue.put(robot, incoming(1))
    assert queue.wait_idle(0)
    assert queue.superseded(robot) == 0


def test_what_is_sent_again_is_neither_superseded_nor_answered_twice():
    robot = session("a")
    queue = queue_of(robot)
    for seq_id in (1, 1, 2, 2):
        queue.put(robot, incoming(seq_id))
    job = queue.next_to_prepare()
    queue.put(robot, incoming(2))
    assert job.incoming.header.seq_id == 2
    queue.finish(job)
    assert queue.wait_idle(0)
    assert queue.superseded(robot) == 1


def test_only_what_finds_room_is_of_use():
    """One request in flight and one that waits; a robot that sends more is slowed down."""
    robot = session("a")
    queue = queue_of(robot)
    assert queue.put(robot, incoming(1))
    queue.next_to_prepare()
    found_room = [queue.put(robot, incoming(seq_id)) for seq_id in (1, 2, 2, 3, 1)]
    assert found_room == [False, True, False, False, False]
    queue.remove(robot)
    assert not queue.put(robot, incoming(4))


def test_the_same_number_in_another_episode_is_another_request():
    robot = session("a")
    queue = queue_of(robot)
    queue.put(robot, incoming(0))
    job = queue.next_to_prepare()
    queue.put(robot, incoming(0, episode_id=1))
    queue.finish(job)
    assert queue.next_to_prepare().incoming.number == (1, 0)


def test_what_comes_late_is_past_while_the_newer_one_is_here():
    robot = session("a")
    queue = queue_of(robot)
    queue.put(robot, incoming(9))
    job = queue.next_to_prepare()
    queue.put(robot, incoming(8))
    queue.finish(job)
    assert queue.wait_idle(0)
    assert queue.superseded(robot) == 1
    queue.put(robot, incoming(1))
    assert answer_next(queue) == ("a", 1)


def test_the_session_that_waited_longest_goes_next():
    turns = RoundRobin()
    assert [turns.pick(["a", "b", "c"]) for _ in range(6)] == ["a", "b", "c", "a", "b", "c"]


def test_a_newcomer_joins_at_the_end_of_the_row():
    turns = RoundRobin()
    turns.pick(["a", "b"])
    assert [turns.pick(["a", "b", "new"]) for _ in range(6)] == ["b", "a", "new", "b", "a", "new"]


def test_a_new_session_for_each_request_gains_nothing():
    turns = RoundRobin()
    grants = Counter()
    for number in range(300):
        chosen = turns.pick([f"new {number}", "a", "b"])
        turns.forget(f"new {number}")
        grants[chosen[:1]] += 1
    assert min(grants["a"], grants["b"]) >= 100


@given(st.lists(st.sets(st.sampled_from("bcdef")), min_size=1, max_size=60))
def test_no_session_waits_longer_than_one_round(waiting_with_greedy):
    """The greedy "a" always asks; any other that waits is served before it is served twice more."""
    turns = RoundRobin()
    passed = Counter()
    for others in waiting_with_greedy:
        chosen = turns.pick(["a", *sorted(others)])
        for one in {"a", *others} - {chosen}:
            passed[one, chosen] += 1
        for key in [key for key in passed if key[0] == chosen]:
            del passed[key]
        assert all(count <= 2 for count in passed.values())


def test_a_session_that_ended_is_forgotten():
    turns = RoundRobin()
    for _ in range(3):
        turns.pick(["a"])
    turns.forget("a")
    assert turns._last == {}
