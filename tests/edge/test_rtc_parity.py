"""Remote real-time chunking against LeRobot's own engine, on the same observations and latencies.

Where the two differ, it is on purpose, and a test says how and why.
"""

import numpy as np
import pytest

from lefleet_client.stream.timing import RoundTrips
from tests.edge.parity import FPS, Asked, GatedPolicy, Largest, LeRobots, Ours, TickClock
from tests.policy import tiny
from tests.server.serving import Bench, loaded

CHUNK, HORIZON, THRESHOLD = 32, 10, 16
RELATIVE = [False, True]


@pytest.fixture(scope="module", params=RELATIVE, ids=["absolute", "relative"])
def served(request, tmp_path_factory):
    make = tiny.rtc_relative if request.param else tiny.rtc_flow
    folder = make(tmp_path_factory.mktemp("flow"), chunk_size=CHUNK, n_action_steps=CHUNK)
    settings = {"model__discover_packages": f"[{tiny.PLUGINS}]"}
    with Bench(folder, loaded(folder, **settings), settings) as bench:
        yield bench


@pytest.fixture
def race(served, monkeypatch):
    """Both engines on one clock; `drive` takes the latency in ticks of each request in turn."""
    clock = TickClock()
    policy = GatedPolicy("memory", "test", client_id="arm", transport=served.node(), timeout_s=30.0)
    theirs = LeRobots(served.folder, clock, THRESHOLD, monkeypatch)
    ours = Ours(policy, clock, THRESHOLD, monkeypatch)
    ours.stream.round_trips = Largest()
    yield Race(clock, theirs, ours)
    theirs.stop()
    ours.stop()


class Race:
    def __init__(self, clock: TickClock, theirs: LeRobots, ours: Ours) -> None:
        self.clock = clock
        self.theirs = theirs
        self.ours = ours
        self.merged: list[tuple[np.ndarray, np.ndarray]] = []
        """Both queues after each merge."""
        self._random = np.random.default_rng(7)

    def drive(self, ticks: int, latencies: list[int]) -> None:
        for _ in range(ticks):
            state = self._random.normal(size=3).astype(np.float32)
            for one in (self.theirs, self.ours):
                one.notify(state)
                one.settle()
            self._answer(latencies)
            for one in (self.theirs, self.ours):
                one.next_action()
            self.clock.tick += 1

    def _answer(self, latencies: list[int]) -> None:
        """Answer the requests that have waited for their number of ticks."""
        is_new = False
        for one in (self.theirs, self.ours):
            if not one.gate.is_waiting:
                continue
            count = len(one.asked)
            asked_at = one.__dict__.setdefault("asked_at", {}).setdefault(count, self.clock.tick)
            if self.clock.tick - asked_at >= latencies[min(count, len(latencies)) - 1]:
                one.answer()
                is_new = True
        if is_new:
            self.merged.append((self.theirs.queue, self.ours.queue))


@pytest.mark.parametrize("latency", [1, 3, 6])
def test_merged_queues_are_identical(race, latency):
    race.drive(ticks=80, latencies=[0, latency])
    assert len(race.merged) >= 4
    for theirs, ours in race.merged:
        assert len(ours) >= CHUNK - latency
        assert ours.tobytes() == theirs.tobytes()
    assert race.ours.asked == [
        one if one.rows is None else Asked(one.delay, THRESHOLD) for one in race.theirs.asked
    ], "the same delay; LeRobot cuts what is left to its horizon, beyond which it has no weight"


def test_an_idle_start_keeps_the_head_of_the_first_chunk(race):
    """LeRobot trims a chunk by the time that it took. A robot that had nothing to execute
    meanwhile stands where it was observed, so we trim by what was really executed: nothing."""
    race.drive(ticks=5, latencies=[4, 100])
    (theirs, ours), *_ = race.merged
    assert (len(theirs), len(ours)) == (CHUNK - 4, CHUNK)
    assert ours[4:].tobytes() == theirs.tobytes()


def test_a_queue_that_ran_dry_is_followed_by_what_was_not_executed(race):
    """The answer comes 4 ticks after the last action: LeRobot skips those 4 steps too."""
    dry = THRESHOLD + 4
    race.drive(ticks=40, latencies=[0, dry, 100])
    theirs, ours = race.merged[1]
    assert (len(theirs), len(ours)) == (CHUNK - dry, CHUNK - THRESHOLD)
    assert ours[4:].tobytes() == theirs.tobytes()


def test_what_is_left_is_not_filled_up_with_zeros(race):
    """Asked with nothing left, LeRobot guides the chunk towards rows of zeros, the mean of all
    actions. We send what is left, and nothing where nothing is."""
    race.drive(ticks=4 * CHUNK, latencies=[0, 2 * CHUNK, 0, 100])
    assert race.theirs.asked[2].rows == HORIZON
    assert race.ours.asked[2].rows is None


def test_one_slow_answer_does_not_count_for_ever(race):
    """LeRobot's delay is the largest latency ever seen; ours is the p95 of the newest hundred."""
    race.drive(ticks=60, latencies=[0, 8, 1])
    assert race.theirs.asked[-1].delay == race.ours.asked[-1].delay == 8
    trips = race.ours.stream.round_trips = RoundTrips()
    trips.add(8 / FPS)
    for _ in range(100):
        trips.add(1 / FPS)
    race.drive(ticks=CHUNK, latencies=[1])
    assert race.ours.asked[-1].delay == 1
    assert race.theirs.asked[-1].delay == 8
