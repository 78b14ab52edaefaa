"""What settings come to: refusals with their numbers, warnings, and when to ask."""

import numpy as np
import pytest

from lefleet_client.stream import StreamSettings
from lefleet_client.stream.fallback import FallbackLadder
from lefleet_client.stream.settings import plan
from lefleet_client.stream.timing import (
    WINDOW,
    RoundTrips,
    buffer_s,
    delay_steps,
    needed_age_s,
    usual_age_s,
)
from tests.client.stream.driving import serves

RTC = serves(supports_rtc=True, rtc_horizon=8)


@pytest.mark.parametrize(
    "name",
    [
        "fps",
        "buffer_time_s",
        "max_action_age_s",
        "degraded_after_s",
        "request_timeout_s",
        "handshake_timeout_s",
        "max_offline_s",
    ],
)
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
def test_times_are_above_zero(name, value):
    with pytest.raises(ValueError, match=f"{name}: .* is not above 0"):
        StreamSettings(**{"fps": 30.0, name: value})


def test_steps_are_at_least_one():
    with pytest.raises(ValueError, match="execute_steps: 0 is below 1"):
        StreamSettings(fps=30.0, execute_steps=0)


@pytest.mark.parametrize(
    ("served", "merge", "expected"),
    [
        (serves(n_action_steps=12), "auto", ("aligned", 12)),
        (serves(n_action_steps=12), "append", ("append", 12)),
        (RTC, "auto", ("rtc", 20)),
        (RTC, "aligned", ("aligned", 20)),
    ],
)
def test_merge_and_steps_follow_from_the_policy(served, merge, expected):
    found = plan(StreamSettings(fps=50.0, merge=merge), served, p95_s=0.05)
    assert (found.merge, found.execute_steps) == expected
    assert (found.max_action_age_s, found.warnings) == (3.0, ())


def test_rtc_is_refused_where_the_server_has_none():
    with pytest.raises(ValueError, match=r"merge: rtc needs .* lerobot/act has none; use auto"):
        plan(StreamSettings(fps=50.0, merge="rtc"), serves(), 0.05)


def test_more_steps_than_a_chunk_has_are_refused():
    with pytest.raises(ValueError, match="execute_steps: 21, and a chunk has 20"):
        plan(StreamSettings(fps=50.0, execute_steps=21), serves(), 0.05)


def test_an_age_that_normal_operation_exceeds_is_refused_with_its_sum():
    with pytest.raises(ValueError, match=r"max_action_age_s: 0\.8 s would stop") as refused:
        plan(StreamSettings(fps=50.0, max_action_age_s=0.8), serves(), 0.2)
    assert (
        "20 steps at 50 Hz take 0.40 s, the buffer 0.25 s and a round trip 0.20 s: 0.85 s in all; "
        "raise it, or lower execute_steps"
    ) in str(refused.value)
    assert plan(StreamSettings(fps=50.0, max_action_age_s=0.86), serves(), 0.2).warnings == ()


def test_an_age_is_raised_for_long_chunks_and_said():
    found = plan(StreamSettings(fps=5.0), serves(), 0.2)
    needed = 20 / 5 + 0.4 + 0.2
    assert found.max_action_age_s == pytest.approx(1.25 * needed)
    assert found.warnings == (
        "actions may be 5.75 s old, because 20 steps at 5 Hz take 4.00 s, the buffer 0.40 s and a "
        "round trip 0.20 s: 4.60 s in all",
    )


def test_a_buffer_below_the_round_trip_is_said():
    (warning,) = plan(StreamSettings(fps=50.0, buffer_time_s=0.1), serves(), 0.15).warnings
    assert warning.startswith(
        "buffer_time_s of 0.1 s is below the measured round trip of 0.15 s: the robot will wait"
    )


def test_a_round_trip_of_more_than_half_a_chunk_is_said():
    """What is left of a chunk when it comes must last until the next one comes."""
    settings = StreamSettings(fps=50.0)
    assert plan(settings, serves(), 0.2).warnings == ()
    assert plan(settings, serves(), 0.21).warnings == (
        "a round trip of 0.21 s is more than half of the 0.40 s that a chunk takes: the robot will "
        "wait for chunks",
    )


@pytest.mark.parametrize(("envelope_ms", "count"), [(0.0, 0), (100.0, 1), (200.0, 0)])
def test_a_latency_at_which_the_checkpoint_was_not_shown_to_work_is_said(envelope_ms, count):
    served = serves(envelope_ms=envelope_ms)
    warnings = plan(StreamSettings(fps=50.0), served, 0.15).warnings
    assert len(warnings) == count
    assert all("takes 150 ms" in one and "up to 100 ms only" in one for one in warnings)


@pytest.mark.parametrize(
    ("settings", "p95_s", "expected"),
    [
        ({}, 0.1, 6),  # 0.1 s and a quarter of it, at 50 Hz
        ({}, 0.01, 1),  # 10 ms and one tick are 30 ms
        ({"buffer_time_s": 0.29}, 0.1, 14),
        ({"buffer_time_s": 0.58}, 0.1, 29),  # more than a chunk: always
        ({}, 0.4, 0),  # as long as the chunk's playback: when nothing is left
        ({"buffer_time_s": 0.2}, 0.5, 0),
        ({"merge": "append"}, 0.4, 25),
    ],
)
def test_the_next_chunk_is_asked_for_when_so_much_is_left(settings, p95_s, expected):
    settings = StreamSettings(fps=50.0, **settings)
    assert plan(settings, serves(), 0.05).ask_at(settings, p95_s) == expected


def test_p95_forgets_a_slow_answer():
    trips = RoundTrips()
    assert (trips.p95_s, trips.last_s) == (0.0, 0.0)
    trips.add(5.0)
    assert (trips.p95_s, trips.last_s) == (5.0, 5.0)
    for _ in range(19):
        trips.add(0.1)
    assert trips.p95_s == 0.1
    for _ in range(5):
        trips.add(2.0)
    assert trips.p95_s == 2.0
    for _ in range(WINDOW):
        trips.add(0.2)
    assert trips.p95_s == 0.2


def test_buffer_delay_and_age():
    assert buffer_s(0.4, fps=50.0) == 0.5
    assert buffer_s(0.0, fps=50.0) == 0.02
    assert delay_steps(0.0, fps=50.0, horizon=8) == 0
    assert delay_steps(0.041, fps=50.0, horizon=8) == 3
    assert delay_steps(9.0, fps=50.0, horizon=8) == 8
    assert needed_age_s(20, 50.0, 0.25, 0.2) == pytest.approx(0.85)
    assert (usual_age_s(2.9), usual_age_s(4.0)) == (3.0, 5.0)


def np32(*values):
    return np.array(values, np.float32)


POSITIONS, MIXED, VELOCITIES = ("a.pos", "b.pos"), ("a.pos", "base.vel"), ("x.vel", "y.vel")


@pytest.mark.parametrize(
    ("fallback", "names", "text"),
    [
        ("hold", MIXED, "hold sends nothing, and then base.vel go on moving; use safe"),
        ("hold", VELOCITIES, "x.vel, y.vel go on moving"),
        ("zero", POSITIONS, "zero is a position for a.pos, b.pos, and the robot would drive there"),
        ("zero", MIXED, "zero is a position for a.pos,"),
        ("zero", ("gripper", "x.vel"), "zero is a position for gripper,"),
    ],
)
def test_a_fallback_that_would_move_the_robot_is_refused(fallback, names, text):
    with pytest.raises(ValueError, match="fallback: ") as refused:
        FallbackLadder(fallback, names)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("fallback", "names", "expected"),
    [
        ("safe", POSITIONS, [1, 2]),
        ("safe", MIXED, [1, 0]),
        ("safe", VELOCITIES, [0, 0]),
        ("hold", POSITIONS, None),
        ("repeat_last", MIXED, [1, 2]),
        ("zero", VELOCITIES, [0, 0]),
    ],
)
def test_what_each_fallback_does_with_the_last_command(fallback, names, expected):
    action = FallbackLadder(fallback, names).action(np32(1, 2), None)
    assert (action if action is None else action.tolist()) == expected


@pytest.mark.parametrize(
    ("fallback", "names", "seen", "expected"),
    [
        ("safe", POSITIONS, (7, 8), None),  # it stays as it is
        ("safe", MIXED, (7, 8), [7, 0]),
        ("repeat_last", MIXED, (7, 8), [7, 0]),
        ("safe", MIXED, (float("nan"), 8), None),
        ("safe", MIXED, (7, float("nan")), [7, 0]),
        ("safe", MIXED, None, None),
        ("zero", VELOCITIES, None, [0, 0]),
    ],
)
def test_what_each_fallback_does_before_the_first_command(fallback, names, seen, expected):
    ladder = FallbackLadder(fallback, names, positions=lambda observed: np32(*observed))
    action = ladder.action(None, seen)
    assert (action if action is None else action.tolist()) == expected


def test_positions_that_cannot_be_read_are_unknown(caplog):
    calls = []

    def fail(seen):
        calls.append(seen)
        raise KeyError("a.pos")

    ladder = FallbackLadder("safe", MIXED, fail)
    assert ladder.action(None, {}) is ladder.action(None, {}) is None
    assert len(calls) == 1
    assert "the present positions cannot be read" in caplog.text
