"""How often sessions may be opened, by a clock that the tests move."""

from lefleet.server.rates import OPENS_IN_ALL, OPENS_OF_ONE, OpenLimiter


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_one_name_may_open_some_sessions_at_once_and_then_a_few_a_second():
    clock = Clock()
    limiter = OpenLimiter(16, clock)
    assert not any(limiter.excess("arm") for _ in range(OPENS_OF_ONE))
    assert "client_id" in limiter.excess("arm")
    assert not limiter.excess("other")
    clock.now_s = 1.0
    assert [bool(limiter.excess("arm")) for _ in range(6)] == [False] * 5 + [True]


def test_all_names_together_may_open_one_session_for_each_place_and_some_a_second():
    clock = Clock()
    limiter = OpenLimiter(16, clock)
    names = (f"arm {number}" for number in range(10_000))
    assert not any(limiter.excess(next(names)) for _ in range(16 + OPENS_IN_ALL))
    assert "a second" in limiter.excess(next(names))
    clock.now_s = 0.5
    assert sum(not limiter.excess(next(names)) for _ in range(1000)) == OPENS_IN_ALL // 2


def test_only_the_latest_names_are_remembered():
    limiter = OpenLimiter(16, Clock())
    for number in range(5000):
        limiter.excess(f"arm {number}")
    assert len(limiter._by_segment) <= 1024
