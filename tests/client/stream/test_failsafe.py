"""Every transition of the fail-safe machine, without threads and without waiting."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet_client.stream.failsafe import (
    Absent,
    FailSafe,
    FailSafeLimits,
    Fatal,
    Happened,
    Mode,
    RequestLate,
    SessionOver,
    Starved,
    advance,
)

NOW_S = 100.0
LIMITS = FailSafeLimits(degraded_after_s=1.0, max_offline_s=10.0, late_in_a_row=2)
NEW = FailSafe(LIMITS, since_s=0.0)


def after(state: FailSafe, *events, now_s: float = NOW_S) -> FailSafe:
    for event in events:
        state = advance(state, event, now_s)
    return state


STREAMING = after(NEW, Happened.MERGED)
WAITING = after(STREAMING, Happened.ASKED, now_s=NOW_S - 1.0)
LOST = SessionOver("went away")
STATES = {
    "CONNECTING": NEW,
    "STREAMING": STREAMING,
    "STREAMING, request late": WAITING,
    "STREAMING, one late": after(STREAMING, RequestLate("no chunk")),
    "STREAMING, paused": after(STREAMING, Happened.PAUSED, now_s=NOW_S - 5),
    "DEGRADED": after(WAITING, Happened.TICK),
    "STALLED": after(STREAMING, Starved("no action is left")),
    "STALLED, out of time": after(STREAMING, Starved("no action is left"), now_s=NOW_S - 10),
    "RECONNECTING": after(STREAMING, LOST),
    "RECONNECTING, out of time": after(STREAMING, LOST, now_s=NOW_S - 10),
    "RECONNECTING, paused": after(STREAMING, LOST, Happened.PAUSED, now_s=NOW_S - 10),
    "DEAD": after(STREAMING, Fatal("another digest")),
}
EVENTS = {
    **{event.name: event for event in Happened},
    "starved": Starved("no action is left"),
    "absent": Absent(NOW_S - 2),
    "late": RequestLate("no chunk"),
    "over": LOST,
    "fatal": Fatal("another digest"),
}
SAME = object()
TABLE = {
    **{(state, "fatal"): "DEAD" for state in STATES},
    **{(state, "MERGED"): "STREAMING" for state in STATES},
    **{(state, "over"): "RECONNECTING" for state in STATES},
    **{(state, "RESET"): "CONNECTING" for state in STATES if "RECONNECTING" not in state},
    ("STREAMING, request late", "TICK"): "DEGRADED",
    ("STREAMING", "starved"): "STALLED",
    ("STREAMING, request late", "starved"): "STALLED",
    ("STREAMING, one late", "starved"): "STALLED",
    ("DEGRADED", "starved"): "STALLED",
    ("STREAMING, one late", "late"): "RECONNECTING",
    ("STALLED, out of time", "TICK"): "DEAD",
    ("RECONNECTING, out of time", "TICK"): "DEAD",
    ("STREAMING, paused", "RESUMED"): "CONNECTING",
    **{("DEAD", event): "DEAD" for event in EVENTS},
}
"""Every row that is not here stays in its mode."""
UNCHANGED = {
    "TICK": {"STREAMING, request late", "STALLED, out of time", "RECONNECTING, out of time"},
    "RESUMED": {"STREAMING, paused", "RECONNECTING, paused"},
}
"""Events that change nothing at all, except in these states."""


@pytest.mark.parametrize(("state", "event"), itertools.product(STATES, EVENTS))
def test_every_event_in_every_mode(state, event):
    before = STATES[state]
    following = advance(before, EVENTS[event], NOW_S)
    assert following.mode.name == TABLE.get((state, event), before.mode.name)
    if state == "DEAD" or (event in UNCHANGED and state not in UNCHANGED[event]):
        assert following is before


def test_the_table_names_only_what_exists():
    assert {state for state, _ in TABLE} <= STATES.keys()
    assert {event for _, event in TABLE} <= EVENTS.keys()
    assert {state.mode for state in STATES.values()} == set(Mode)
    assert {state.split(",")[0] for state in STATES} == {mode.name for mode in Mode}
    for name, state in STATES.items():
        assert state.mode.name == name.split(",")[0]


def test_reasons_are_those_of_the_event():
    assert STATES["STALLED"].reason == "no action is left"
    assert STATES["DEGRADED"].reason == "no answer for 1 s"
    assert after(STATES["STREAMING, one late"], RequestLate("no chunk")).reason == (
        "2 requests in a row: no chunk"
    )
    dead = after(STATES["RECONNECTING, out of time"], Happened.TICK)
    assert dead.reason == "no chunk for 10 s: went away"
    assert STREAMING.reason == ""


def test_a_mode_begins_when_it_is_entered():
    stalled = after(STREAMING, Starved("empty"), now_s=200.0)
    assert stalled.since_s == 200.0
    assert after(stalled, Starved("empty"), Happened.ASKED, now_s=300.0).since_s == 200.0


def test_a_loss_is_counted_once():
    lost = after(STREAMING, LOST, LOST, RequestLate("x"), RequestLate("x"), Happened.RESET, LOST)
    assert (lost.reconnects, lost.mode) == (1, Mode.RECONNECTING)
    again = after(lost, Happened.MERGED, LOST)
    assert again.reconnects == 2


def test_requests_in_a_row_that_are_late_count_only_in_a_row():
    state = STREAMING
    for _ in range(5):
        state = after(state, RequestLate("x"), Happened.MERGED)
    assert (state.reconnects, state.late) == (0, 0)


def test_time_that_a_control_loop_was_elsewhere_does_not_count():
    lost = after(STREAMING, LOST, now_s=100.0)
    back = after(lost, Absent(since_s=103.0), now_s=500.0)
    assert back.dies_at_s == pytest.approx(500.0 + 10 - 3)
    assert after(STREAMING, LOST, Absent(since_s=50.0), now_s=500.0).dies_at_s == 510.0


EVENT = st.one_of(
    st.sampled_from(list(Happened)),
    st.builds(Starved, st.just("empty")),
    st.builds(RequestLate, st.just("no chunk")),
    st.builds(SessionOver, st.just("went away")),
)
STEPS = st.lists(st.tuples(EVENT, st.floats(0, 4)), max_size=40)
MANY = settings(max_examples=150, deadline=None)


def walk(steps, state: FailSafe = NEW, now_s: float = 0.0):
    """Every state on the way, with its event and its time."""
    for event, passed_s in steps:
        now_s += passed_s
        before, state = state, advance(state, event, now_s)
        yield before, event, now_s, state


@MANY
@given(STEPS, STEPS)
def test_dead_is_final(before, later):
    dead = advance(NEW, Fatal("another digest"), 0.0)
    for *_, state in walk([*before, *later], dead):
        assert state is dead


@MANY
@given(STEPS)
def test_only_a_merged_chunk_ends_the_time_offline(steps):
    for before, event, _, state in walk(steps):
        if before.offline_since_s is not None and state.offline_since_s is None:
            assert event is Happened.MERGED
        if event is Happened.MERGED and not state.is_dead:
            assert state.offline_since_s is None


@MANY
@given(STEPS, st.floats(0, 1e6), STEPS)
def test_a_pause_takes_nothing_from_the_budget(before, pause_s, meanwhile):
    """Whatever happens in a pause, except a chunk, the robot has as long to live after it."""
    *_, (_, _, now_s, state) = [(None, None, 0.0, NEW), *walk(before)]
    state = advance(state, Happened.RESUMED, now_s)
    left_s = state.dies_at_s - now_s
    paused = advance(state, Happened.PAUSED, now_s)
    calm = [
        (event, passed)
        for event, passed in meanwhile
        if event not in (Happened.MERGED, Happened.RESUMED)
    ]
    *_, (_, _, later_s, during) = [(None, None, now_s, paused), *walk(calm, paused, now_s)]
    assert during.is_dead == state.is_dead
    later_s += pause_s
    resumed = advance(during, Happened.RESUMED, later_s)
    if state.offline_since_s is not None:
        assert resumed.dies_at_s - later_s == pytest.approx(left_s, abs=1e-3)
    elif resumed.offline_since_s is not None:
        assert resumed.dies_at_s - later_s == pytest.approx(LIMITS.max_offline_s, abs=1e-3)


@MANY
@given(STEPS, st.lists(st.floats(0.01, 3.0), min_size=30, max_size=30))
def test_a_server_that_opens_sessions_and_never_answers_ends_in_dead(before, times):
    """Requests time out, sessions are lost and opened, episodes begin, with and without pauses."""
    calm = [step for step in before if step[0] is not Happened.MERGED]
    *_, (_, _, now_s, state) = [(None, None, 0.0, NEW), *walk(calm)]
    state = advance(advance(state, Happened.RESUMED, now_s), Happened.ASKED, now_s)
    asked_s, paused_s = now_s, 0.0
    events = itertools.cycle(
        [RequestLate("x"), Happened.TICK, LOST, Happened.RESET, Happened.ASKED]
    )
    for event, passed_s in zip(events, times, strict=False):
        state = advance(state, Happened.PAUSED, now_s)
        now_s, paused_s = now_s + passed_s, paused_s + passed_s
        state = advance(state, Happened.RESUMED, now_s)
        now_s += passed_s
        state = advance(advance(state, event, now_s), Happened.TICK, now_s)
        if now_s - asked_s - paused_s >= LIMITS.max_offline_s + 1e-6:
            assert state.is_dead
    state = advance(state, Happened.TICK, now_s + LIMITS.max_offline_s)
    assert state.is_dead


@MANY
@given(STEPS)
def test_reconnects_are_counted_when_and_only_when_the_mode_is_entered(steps):
    for before, _, _, state in walk(steps):
        entered = state.mode is Mode.RECONNECTING and before.mode is not Mode.RECONNECTING
        assert state.reconnects - before.reconnects == entered


@MANY
@given(STEPS, st.floats(0, 30))
def test_a_tick_changes_something_exactly_from_its_time_on(steps, passed_s):
    """So a control loop need not feed it before."""
    for *_, now_s, state in walk(steps):
        later_s = now_s + passed_s
        ticked = advance(state, Happened.TICK, later_s)
        assert (ticked is not state) == (later_s >= state.wake_at_s)


def test_limits_are_those_of_the_settings():
    short = replace(NEW, limits=FailSafeLimits(max_offline_s=0.5))
    assert after(short, LOST, now_s=0.0).dies_at_s == 0.5
