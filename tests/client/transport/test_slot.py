"""The slot: the newest item, once."""

import threading

from lefleet_client.transport import Slot
from tests.client.transport.waiting import LONG_S, bounded


def test_an_item_is_taken_once():
    slot = Slot()
    slot.put("a")
    assert slot.take(0) == "a"
    assert slot.take(0) is None
    assert slot.superseded == 0


def test_a_newer_item_overwrites_and_is_counted():
    slot = Slot()
    for item in "abc":
        slot.put(item)
    assert slot.take(0) == "c"
    assert slot.superseded == 2


def test_taking_waits_for_an_item():
    slot = Slot()
    thread = threading.Thread(target=slot.put, args=("late",))
    thread.start()
    assert slot.take(LONG_S) == "late"
    thread.join(LONG_S)


def test_closing_ends_the_waiting():
    slot = Slot()
    threading.Timer(0.01, slot.close).start()
    assert bounded(lambda: slot.take(3600)) is None


def test_what_was_put_before_closing_can_still_be_taken():
    slot = Slot()
    slot.put("last")
    slot.close()
    assert slot.take(3600) == "last"
