"""When a robot counts as gone, and that nothing else ends its session."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from lefleet.server.reaper import Absence, SessionReaper, UnknownClient, judge_absence
from lefleet_client import wire
from lefleet_client.remote import (
    RemotePolicy,
)
from lefleet_client.transport import ZenohFailed, ZenohSettings, ZenohTransport
from tests.server.serving import (
    Bench,
    eventually,
    keys_of,
    observation,
    serving,
)

GRACE_S = 4.0


@pytest.mark.parametrize(
    ("absence", "now_s", "step"),
    [
        (Absence(10.0, 10.0), 10.9, "wait"),
        (Absence(10.0, 10.0), 11.0, "ask"),
        (Absence(10.0, 11.0, 1), 11.9, "wait"),
        (Absence(10.0, 12.0, 3), 30.0, "ask"),
        (Absence(10.0, 13.5, 4), 13.9, "wait"),
        (Absence(10.0, 13.5, 4), 14.0, "gone"),
        (Absence(10.0, 13.0, 4), 14.0, "gone"),
    ],
)
def test_an_absence_has_to_last_and_to_be_confirmed(absence, now_s, step):
    assert judge_absence(absence, now_s, GRACE_S) == step


def test_a_robot_that_left_is_gone_after_the_grace_period_and_four_questions():
    absence, now_s, steps = Absence.begin(0.0), 0.0, []
    while not steps or steps[-1] != "gone":
        now_s += 0.25
        steps.append(judge_absence(absence, now_s, GRACE_S))
        if steps[-1] == "ask":
            absence = absence._replace(asked_s=now_s, empty_answers=absence.empty_answers + 1)
    assert (steps.count("ask"), GRACE_S <= now_s <= GRACE_S + 0.25) == (4, True)


def test_a_robot_that_sends_keeps_its_session_whatever_becomes_of_its_token(checkpoint, policy):
    """Empty answers about a token that is there were seen on busy networks."""
    with Bench(checkpoint, policy, {"grace_s": 0.5}) as bench:
        bench.node_of_server().present = lambda *_: frozenset()
        with bench.robot("arm") as robot:
            robot.infer(observation(policy, 0))
            first, reaper = robot.ack.session_id, bench.service._reaper
            looks, look = threading.Semaphore(0), reaper._close_gone

            def counted():
                looks.release()
                look()

            reaper._close_gone = counted
            for _ in range(8):
                while not looks.acquire(timeout=0.05):
                    robot.infer(observation(policy, 0))
            assert (robot.ack.session_id, bench.session_ids()) == (first, [first])


def test_a_few_empty_answers_do_not_end_the_session_of_a_silent_robot(checkpoint, policy):
    with Bench(checkpoint, policy, {"grace_s": 0.1}) as bench:
        node, wrong = bench.node_of_server(), [frozenset()] * 3
        present = node.present
        node.present = lambda *asked: wrong.pop() if wrong else present(*asked)
        with bench.robot("arm") as robot:
            eventually(lambda: not wrong and not bench.service._reaper._absences)
            assert bench.session_ids() == [robot.ack.session_id]


def test_a_token_that_comes_back_ends_the_absence(checkpoint, policy):
    with Bench(checkpoint, policy, {"grace_s": 30}) as bench, bench.robot("arm"):
        reaper = bench.service._reaper
        eventually(lambda: reaper._absences)
        reaper.seen("arm", is_alive=True)
        assert not reaper._absences
        reaper.seen("arm", is_alive=False)
        assert reaper._absences
        reaper.seen("arm", is_alive=True)
        assert not reaper._absences


def test_a_robot_that_pauses_for_hours_keeps_its_place(checkpoint, policy):
    with Bench(checkpoint, policy, {"grace_s": 0.1}) as bench, bench.robot("arm") as robot:
        robot.infer(observation(policy, 0))
        (session,) = bench.service._sessions.snapshot().values()
        session.seen_s -= 8 * 3600
        reaper, looks = bench.service._reaper, threading.Semaphore(0)
        look = reaper._close_idle
        reaper._close_idle = lambda: (look(), looks.release())
        for _ in range(2):
            assert looks.acquire(timeout=20)
        assert bench.session_ids() == [robot.ack.session_id]


def _send_until(has_ended: threading.Event, robot: RemotePolicy, policy) -> None:
    while not has_ended.is_set():
        robot.infer(observation(policy, 0))


@pytest.mark.parametrize(
    "robots", [24, pytest.param(300, marks=[pytest.mark.chaos, pytest.mark.slow])]
)
def test_many_silent_robots_keep_their_sessions_through_a_router(
    checkpoint, policy, router, robots
):
    """Every token is asked for several times beside robots that send, and no session is closed."""
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(ZenohTransport.open(ZenohSettings(connect=(router.endpoint,))))
            for _ in range(4)
        ]
        server = stack.enter_context(
            ZenohTransport.open(ZenohSettings(mode="peer", connect=(router.endpoint,)))
        )
        service = stack.enter_context(
            serving(checkpoint, policy, server, max_sessions=robots, grace_s=1)
        )

        def opened(number: int) -> RemotePolicy:
            name, node = f"arm-{number}", nodes[number % len(nodes)]
            return RemotePolicy("zenoh", "test", client_id=name, transport=node, timeout_s=30.0)

        with ThreadPoolExecutor(8) as pool:
            fleet = list(pool.map(opened, range(robots)))
        for robot in fleet:
            stack.callback(robot.close)
        first = {session.id for session in service._sessions.snapshot().values()}
        with ThreadPoolExecutor(4) as pool:
            has_ended = threading.Event()
            stack.callback(has_ended.set)
            busy = [pool.submit(_send_until, has_ended, robot, policy) for robot in fleet[:4]]
            for _ in range(3):
                for segment in service._sessions.snapshot():
                    service._reaper.seen(segment, is_alive=False)
                eventually(lambda: not service._reaper._absences, 60)
            has_ended.set()
            for one in busy:
                one.result()
        now = service._sessions.snapshot().values()
        assert ({session.id for session in now}, len(now)) == (first, robots)


def test_answers_to_clients_without_a_session_are_limited_in_all():
    """Each costs a declaration on the network, and names cost a hostile program nothing."""
    reaper = SessionReaper(None, None, None, grace_s=1.0, idle_timeout_s=1.0)
    header = wire.Header(wire.MessageType.OBSERVATION, 0, 0, 0)
    accepted = 0
    for number in range(2000):
        if reaper.answer_later(UnknownClient(f"unknown-{number}", header)):
            reaper._unknown_clients.get_nowait()
            accepted += 1
    assert 256 <= accepted < 1000


def test_the_place_of_a_robot_that_died_is_free_after_the_grace_period(checkpoint, policy):
    with Bench(checkpoint, policy, {"grace_s": 0.1}) as bench:
        bench.robot("arm").infer(observation(policy, 0))
        # The node goes without a word, as a robot does that loses its power.
        bench.node_of_last_robot().close()
        eventually(lambda: bench.service.status().sessions == 0)


def test_a_question_that_fails_does_not_keep_the_session_of_a_robot_that_died(checkpoint, policy):
    with Bench(checkpoint, policy, {"grace_s": 0.1}) as bench:
        bench.robot("arm").infer(observation(policy, 0))
        eventually(lambda: not bench.service._reaper._absences)
        node, failures = bench.node_of_server(), [ZenohFailed("once")]
        present = node.present

        def fails_once(*values):
            if failures:
                raise failures.pop()
            return present(*values)

        node.present = fails_once
        bench.node_of_last_robot().close()
        eventually(lambda: bench.service.status().sessions == 0)
        assert not failures


def test_late_news_of_an_earlier_session_ends_nothing(checkpoint, policy):
    """The token of a robot that came back is gone and there: asking for it decides."""
    with Bench(checkpoint, policy, {"grace_s": 0.05}) as bench, bench.robot("arm") as robot:
        reaper = bench.service._reaper
        eventually(lambda: not reaper._absences and robot.ack.session_id in bench.session_ids())
        reaper.seen("arm", is_alive=False)
        assert reaper._absences
        eventually(lambda: not reaper._absences)
        robot.infer(observation(policy, 0))
        assert bench.session_ids() == [robot.ack.session_id]


def test_a_robot_that_was_gone_before_its_session_opened_does_not_keep_it(checkpoint, policy):
    with Bench(checkpoint, policy, {"grace_s": 0.1, "max_sessions": 1}) as bench:
        asked = bench.opening()
        body = wire.SESSION_REQUEST.encode(asked)
        key = keys_of(bench.service.status()).client(asked.client_id).session
        reply = bench.node().ask(key, body, 5.0).replies[0].payload
        assert isinstance(wire.SESSION_REPLY.decode(reply), wire.SessionAck)
        eventually(lambda: bench.service.status().sessions == 0)
        with bench.robot("honest") as robot:
            robot.infer(observation(policy, 0))


def test_a_silent_robot_loses_its_session_and_gets_another_with_its_next_request(
    checkpoint, policy
):
    settings = {"session_idle_timeout_s": 0.2}
    with Bench(checkpoint, policy, settings) as bench, bench.robot("arm") as robot:
        robot.infer(observation(policy, 0))
        eventually(lambda: bench.service.status().sessions == 0)
        robot.infer(observation(policy, 0))
