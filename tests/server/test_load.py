"""The share of time that was spent on inference."""

from lefleet.server.load import WINDOW_S, BusyMeter


def test_it_is_the_busy_share_of_the_last_seconds():
    now = [0.0]
    meter = BusyMeter(lambda: now[0])
    assert meter.read() == 0.0
    now[0] = 2.0
    meter.add(1.0, 2.0)
    assert meter.read() == 0.5
    now[0] = 6.0
    assert meter.read() == 1.0 / WINDOW_S
    now[0] = 60.0
    assert meter.read() == 0.0


def test_it_never_leaves_its_range():
    now = [10.0]
    meter = BusyMeter(lambda: now[0])
    meter.add(0.0, 10.0)
    now[0] = 10.5
    assert 0.0 <= meter.read() <= 1.0
