"""Work on a thread of its own: whoever offers it never waits and never sees an error."""

import logging
import threading

from lefleet.server.background import Background
from tests.client.transport.waiting import LONG_S


def test_work_is_done_in_order_and_finished_before_it_closes():
    done = []
    work = Background("test", done.append, room=100)
    for number in range(50):
        work.offer(number)
    assert work.close(LONG_S)
    assert done == list(range(50))
    assert work.skipped == 0


def test_whoever_offers_too_much_does_not_wait_and_it_is_counted():
    started, may_go = threading.Event(), threading.Event()

    def stuck(number: int) -> None:
        started.set()
        may_go.wait(LONG_S)

    work = Background("test", stuck, room=2)
    work.offer(0)
    assert started.wait(LONG_S)
    for number in range(5):
        work.offer(number)
    assert work.skipped == 3
    may_go.set()
    assert work.close(LONG_S)


def test_closing_does_not_wait_for_work_that_is_stuck():
    may_go = threading.Event()
    work = Background("test", lambda item: may_go.wait(LONG_S), room=1)
    work.offer(1)
    assert not work.close(timeout_s=0.01)
    may_go.set()


def test_an_error_is_said_once_counted_and_survived(caplog):
    done = []

    def picky(number: int) -> None:
        if number % 2:
            raise OSError("the disk is full")
        done.append(number)

    work = Background("test", picky, room=10)
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            work.offer(number)
        assert work.close(LONG_S)
    assert done == [0, 2, 4]
    assert work.skipped == 2
    assert [record.getMessage().count("the disk is full") for record in caplog.records] == [1]


def test_what_comes_after_closing_is_skipped():
    work = Background("test", print, room=1)
    work.close(LONG_S)
    work.offer(1)
    assert work.skipped == 1
