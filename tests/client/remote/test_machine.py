"""Every transition of the connection, without a network and without waiting."""

import itertools
from dataclasses import replace

import msgspec
import pytest

from lefleet_client import wire
from lefleet_client.remote import (
    NoServer,
    Refused,
    Replaced,
    RequestRejected,
    WrongModel,
    machine,
)
from lefleet_client.remote.discovery import SessionSpec
from lefleet_client.remote.machine import advance, backoff_s, begin
from lefleet_client.remote.states import (
    GRACE_S,
    Check,
    CodecChosen,
    ConnectionNotice,
    Discover,
    ForeignDigest,
    InstancesSeen,
    LeaveServer,
    NoSession,
    OpenSession,
    Overtaken,
    Phase,
    ServersFound,
    Signal,
)
from tests.client.remote.scripted import acknowledgement, server_status

NOW_S = 100.0
SPEC = SessionSpec(client_id="arm", endpoints="test", service="fold")
A, B = server_status("a"), server_status("b", load=0.9)
REJECTED = wire.SessionRejected(check="capacity", reason="full")


def after(state, *events, now_s=NOW_S):
    """The state after these events."""
    for event in events:
        state, _ = advance(state, event, now_s)
    return state


def ack_for(state, **changes):
    plain = acknowledgement("a", state.session_epoch)
    return msgspec.structs.replace(plain, **changes)


SEARCHING, _ = begin(SPEC, session_epoch=6)
OPENING = after(SEARCHING, ServersFound((A,)))
OPEN = after(OPENING, ack_for(OPENING))
STATES = {
    "SEARCHING": SEARCHING,
    "OPENING": OPENING,
    "OPEN": OPEN,
    "OPEN, draining": after(OPEN, wire.Draining()),
    "OPEN, gone": after(OPEN, Signal.PRESENCE_LOST, now_s=NOW_S - GRACE_S),
    "BACKOFF": replace(after(SEARCHING, ServersFound(())), retry_at_s=NOW_S),
    "FAILED": after(OPEN, ForeignDigest("d2")),
    "FAILED, replaced": after(OPEN, wire.SessionClosed(reason="replaced by a newer session")),
    "CLOSED": after(OPEN, Signal.CLOSE_ASKED),
}
EVENTS = {
    "servers": ServersFound((A, B)),
    "no servers": ServersFound(()),
    "ack": ack_for(OPENING),
    "faulty ack": ack_for(OPENING, session_epoch=99),
    "ack of another instance": ack_for(OPENING, instance_id="restarted"),
    "rejected": REJECTED,
    "no session": NoSession("no answer within 2 s"),
    "draining": wire.Draining(),
    "closed": wire.SessionClosed(reason="the server stopped"),
    "replaced": wire.SessionClosed(reason="replaced by a newer session"),
    "foreign digest": ForeignDigest("d2"),
    "overtaken": Overtaken("newer: episode 7 has begun"),
    "same instance": InstancesSeen(frozenset({"a-1"})),
    "twin": InstancesSeen(frozenset({"a-1", "a-2"})),
    "other instance": InstancesSeen(frozenset({"a-2"})),
    "no instance": InstancesSeen(frozenset()),
    "codec": CodecChosen("jpeg"),
    **{signal.name: signal for signal in Signal},
}
LOST = ("SEARCHING", "leave lost discover")
TABLE = {
    ("SEARCHING", "servers"): ("OPENING", "open"),
    ("SEARCHING", "no servers"): ("BACKOFF", ""),
    ("SEARCHING", "INTERRUPTED"): ("BACKOFF", "leave"),
    ("SEARCHING", "CLOSE_ASKED"): ("CLOSED", "leave"),
    ("OPENING", "ack"): ("OPEN", "opened"),
    ("OPENING", "faulty ack"): ("BACKOFF", "close"),
    ("OPENING", "ack of another instance"): ("BACKOFF", "close"),
    ("OPENING", "rejected"): ("FAILED", "leave"),
    ("OPENING", "no session"): ("BACKOFF", "leave"),
    ("OPENING", "INTERRUPTED"): ("BACKOFF", "leave"),
    ("OPENING", "CLOSE_ASKED"): ("CLOSED", "leave"),
    ("OPEN", "draining"): ("OPEN", "draining"),
    ("OPEN", "closed"): LOST,
    ("OPEN", "replaced"): ("FAILED", "leave replaced"),
    ("OPEN", "foreign digest"): ("FAILED", "close lost"),
    ("OPEN", "overtaken"): ("BACKOFF", "close overtaken"),
    ("OPEN", "twin"): ("OPEN", "twin"),
    ("OPEN", "other instance"): LOST,
    ("OPEN", "codec"): ("OPEN", ""),
    ("OPEN", "PRESENCE_LOST"): ("OPEN", ""),
    ("OPEN", "SERVER_MISSING"): LOST,
    ("OPEN", "ANSWER_OVERDUE"): ("OPEN", "presence"),
    ("OPEN", "GIVEN_UP"): ("SEARCHING", "close lost discover"),
    ("OPEN", "CLOSE_ASKED"): ("CLOSED", "close"),
    ("OPEN, draining", "closed"): LOST,
    ("OPEN, draining", "replaced"): ("FAILED", "leave replaced"),
    ("OPEN, draining", "foreign digest"): ("FAILED", "close lost"),
    ("OPEN, draining", "overtaken"): ("BACKOFF", "close overtaken"),
    ("OPEN, draining", "twin"): ("OPEN", "twin"),
    ("OPEN, draining", "other instance"): LOST,
    ("OPEN, draining", "codec"): ("OPEN", ""),
    ("OPEN, draining", "PRESENCE_LOST"): ("OPEN", ""),
    ("OPEN, draining", "SERVER_MISSING"): LOST,
    ("OPEN, draining", "ANSWER_OVERDUE"): LOST,
    ("OPEN, draining", "SEND_ASKED"): LOST,
    ("OPEN, draining", "GIVEN_UP"): ("SEARCHING", "close lost discover"),
    ("OPEN, draining", "CLOSE_ASKED"): ("CLOSED", "close"),
    ("OPEN, gone", "draining"): ("OPEN", "draining"),
    ("OPEN, gone", "closed"): LOST,
    ("OPEN, gone", "replaced"): ("FAILED", "leave replaced"),
    ("OPEN, gone", "foreign digest"): ("FAILED", "close lost"),
    ("OPEN, gone", "overtaken"): ("BACKOFF", "close overtaken"),
    ("OPEN, gone", "twin"): ("OPEN", "twin"),
    ("OPEN, gone", "other instance"): LOST,
    ("OPEN, gone", "codec"): ("OPEN", ""),
    ("OPEN, gone", "PRESENCE_BACK"): ("OPEN", "instance"),
    ("OPEN, gone", "SERVER_MISSING"): LOST,
    ("OPEN, gone", "ANSWER_OVERDUE"): ("OPEN", "presence"),
    ("OPEN, gone", "SEND_ASKED"): LOST,
    ("OPEN, gone", "TICK"): LOST,
    ("OPEN, gone", "GIVEN_UP"): ("SEARCHING", "close lost discover"),
    ("OPEN, gone", "CLOSE_ASKED"): ("CLOSED", "leave"),
    ("BACKOFF", "TICK"): ("SEARCHING", "discover"),
    ("BACKOFF", "CLOSE_ASKED"): ("CLOSED", "leave"),
    ("FAILED", "FAILURE_RAISED"): ("SEARCHING", "discover"),
    ("FAILED", "CLOSE_ASKED"): ("CLOSED", "leave"),
    ("FAILED, replaced", "CLOSE_ASKED"): ("CLOSED", "leave"),
}
"""Every row that is not here changes nothing."""


def short(action) -> str:
    if isinstance(action, ConnectionNotice):
        return action.kind
    if isinstance(action, LeaveServer):
        return "close" if action.session_id else "leave"
    if isinstance(action, Check):
        return action.name.lower()
    return {Discover: "discover", OpenSession: "open"}[type(action)]


@pytest.mark.parametrize(("state", "event"), itertools.product(STATES, EVENTS))
def test_every_event_in_every_state(state, event):
    before = STATES[state]
    following, actions = advance(before, EVENTS[event], NOW_S)
    result = following.phase.name, " ".join(map(short, actions))
    if (state, event) in TABLE:
        assert result == TABLE[state, event]
        assert following != before or actions
    else:
        assert (following, actions) == (before, ())


def test_the_table_names_only_what_exists():
    assert {state for state, _ in TABLE} <= STATES.keys()
    assert {event for _, event in TABLE} <= EVENTS.keys()
    assert {state.phase for state in STATES.values()} == set(Phase)


def test_every_attempt_has_an_epoch_of_its_own():
    opening, (first,) = advance(SEARCHING, ServersFound((A, B)), NOW_S)
    assert (first.status, first.is_last, first.session_epoch) == (A, False, 7)
    opening, (_, second) = advance(opening, NoSession("no answer"), NOW_S)
    assert (second.status, second.is_last, second.session_epoch) == (B, True, 8)
    assert advance(OPENING, ack_for(OPENING), NOW_S)[0].session_epoch == 7
    last, _ = begin(SPEC, session_epoch=2**32 - 1)
    assert after(last, ServersFound((A,))).session_epoch == 0


def test_the_first_session_binds_the_later_ones():
    assert (OPEN.spec.model, OPEN.spec.pin_digest) == ("lerobot/act", "d1")
    searching, actions = advance(OPEN, Signal.SERVER_MISSING, NOW_S)
    assert actions[-1] == Discover("fold", with_others=False)
    other = after(searching, ServersFound((server_status("b", digest="d2"),)))
    assert other.phase is Phase.BACKOFF
    assert isinstance(other.trouble, WrongModel)
    assert "make a new RemotePolicy" in str(other.trouble)


def test_an_answer_is_final_on_a_first_try_only():
    assert isinstance(after(OPENING, REJECTED).trouble, Refused)
    again = after(OPEN, Signal.SERVER_MISSING, ServersFound((A,)), REJECTED)
    assert again.phase is Phase.BACKOFF


def test_a_service_is_missed_by_two_complete_searches_in_a_row():
    others = ServersFound((), (server_status("c", service="pick"),))
    incomplete = replace(others, is_complete=False)
    once = after(SEARCHING, others)
    assert once.phase is Phase.BACKOFF
    once = after(once, Signal.TICK, now_s=once.retry_at_s)
    assert after(once, incomplete).misses == 0
    twice = after(once, others)
    assert twice.phase is Phase.FAILED
    assert isinstance(twice.trouble, NoServer)
    assert "there is 'pick'" in str(twice.trouble)


def test_no_server_at_all_is_waited_for():
    state = SEARCHING
    for _ in range(5):
        state = after(state, ServersFound(()))
        assert state.phase is Phase.BACKOFF
        state = after(state, Signal.TICK, now_s=state.retry_at_s)


def test_a_lost_token_counts_after_the_grace_time():
    gone = after(OPEN, Signal.PRESENCE_LOST)
    assert gone.wake_at_s == NOW_S + GRACE_S
    assert advance(gone, Signal.TICK, NOW_S) == (gone, ())
    drains = after(gone, wire.Draining())
    assert drains.wake_at_s == float("inf")
    assert after(drains, Signal.TICK, now_s=NOW_S + 60).phase is Phase.OPEN


def test_a_session_starts_without_the_news_of_the_last_one():
    before = after(OPEN, CodecChosen("raw"), wire.Draining(), Signal.PRESENCE_LOST)
    opening = after(before, Signal.SEND_ASKED, ServersFound((A,)))
    reopened = after(opening, ack_for(opening))
    assert reopened.is_usable
    assert (reopened.session.codec, reopened.session_epoch) == (None, 8)


def test_a_replaced_robot_stays_replaced():
    replaced = STATES["FAILED, replaced"]
    assert isinstance(replaced.trouble, Replaced)
    assert "its own client_id" in str(replaced.trouble)
    assert after(replaced, Signal.FAILURE_RAISED, Signal.SEND_ASKED, Signal.TICK) == replaced


def test_where_nothing_answers_over_tls_the_access_list_is_mentioned():
    for endpoint, count in (("tls/10.0.0.5:7447", 1), ("tcp/127.0.0.1:7447", 0)):
        searching, _ = begin(replace(SPEC, endpoints=endpoint), session_epoch=6)
        waiting = after(searching, ServersFound(()))
        assert str(waiting.trouble).count("lefleet certs list") == count


def reopened(state):
    """The next session, opened when the backoff is over."""
    opening = after(state, Signal.TICK, ServersFound((A,)), now_s=state.retry_at_s)
    return after(opening, ack_for(opening))


def test_an_overtaken_robot_opens_some_sessions_ever_further_apart_and_then_fails():
    newer, state, waits = EVENTS["overtaken"], OPEN, []
    for _ in range(machine.MOST_OVERTAKEN):
        state = after(state, newer)
        waits.append(state.retry_at_s - NOW_S)
        state = reopened(state)
    assert waits == sorted(waits)
    failed = after(state, newer)
    assert failed.phase is Phase.FAILED
    assert isinstance(failed.trouble, RequestRejected)
    assert "in 4 sessions in a row: another program uses this client_id" in str(failed.trouble)
    assert "use TLS" in str(failed.trouble)
    assert after(failed, Signal.FAILURE_RAISED).phase is Phase.SEARCHING


def test_an_answer_ends_the_count_of_sessions_that_were_overtaken():
    state = OPEN
    for _ in range(2 * machine.MOST_OVERTAKEN):
        state = reopened(after(state, EVENTS["overtaken"]))
        assert state.overtaken == 1
        state = after(state, Signal.ANSWERED)


@pytest.mark.parametrize(("ack", "own"), [(True, False), (False, True), (False, False)])
def test_a_session_over_an_insecure_network_begins_with_a_warning(ack, own):
    opening = replace(OPENING, spec=replace(SPEC, is_insecure=own))
    _, (opened,) = advance(opening, ack_for(opening, insecure=ack, warnings=("fps: 15",)), NOW_S)
    *insecure, last = opened.warnings
    assert last == "fps: 15"
    assert [text.split(":")[0] for text in insecure] == ["insecure"] * (ack or own)


def test_the_warnings_of_a_server_are_cut():
    _, (opened,) = advance(OPENING, ack_for(OPENING, warnings=("x\n" * 8000,) * 256), NOW_S)
    assert (len(opened.warnings), {len(text) for text in opened.warnings}) == (16, {1003})
    assert all(text.isprintable() for text in opened.warnings)


def test_backoff_doubles_up_to_a_limit_and_differs_between_robots():
    waits = [backoff_s("arm", rounds) for rounds in range(2000)]
    longest = [min(machine.LONGEST_BACKOFF_S, 0.1 * 2.0 ** min(k, 9)) for k in range(2000)]
    assert all(limit / 2 <= wait <= limit for wait, limit in zip(waits, longest, strict=True))
    assert waits == [backoff_s("arm", rounds) for rounds in range(2000)]
    assert len({backoff_s(f"arm {number}", 3) for number in range(50)}) == 50


def test_a_server_that_appears_ends_the_backoff_soon():
    waiting = replace(STATES["BACKOFF"], retry_at_s=NOW_S + 60)
    soon = after(waiting, Signal.SERVER_APPEARED)
    assert NOW_S < soon.retry_at_s <= NOW_S + machine.FIRST_BACKOFF_S
    later = after(soon, Signal.SERVER_APPEARED, now_s=NOW_S + 10)
    assert later.retry_at_s == soon.retry_at_s


def test_searches_without_success_are_ever_further_apart():
    state, waits = SEARCHING, []
    for _ in range(6):
        state = after(state, ServersFound(()))
        waits.append(state.retry_at_s - NOW_S)
        state = after(state, Signal.TICK, now_s=state.retry_at_s)
    assert waits[-1] > 8 * waits[0]
    opening = after(state, ServersFound((A,)))
    assert after(opening, ack_for(opening), Signal.ANSWERED).rounds == 0


def test_sessions_that_are_closed_without_a_chunk_are_ever_further_apart():
    state, waits = after(OPEN, Signal.ANSWERED), []
    for _ in range(6):
        state = after(state, EVENTS["closed"])
        waits.append(max(0.0, state.retry_at_s - NOW_S))
        state = reopened(state)
    assert waits[0] == 0
    assert waits[-1] > 8 * waits[1] > 0
    assert after(state, Signal.ANSWERED, EVENTS["closed"]).phase is Phase.SEARCHING


def test_a_server_that_was_given_up_is_asked_last_until_a_chunk_comes():
    searching, actions = advance(OPEN, Signal.GIVEN_UP, NOW_S)
    assert searching.given_up == "a"
    assert (actions[1].kind, actions[1].reason) == ("lost", "does not answer")
    opening, (first,) = advance(searching, ServersFound((A, B)), NOW_S)
    assert (first.status.server, opening.candidates) == ("b", (B, A))
    _, (only,) = advance(searching, ServersFound((A,)), NOW_S)
    assert only.status.server == "a", "better than none"
    opened = after(opening, acknowledgement("b", opening.session_epoch, instance_id="b-1"))
    assert opened.given_up == "a"
    answered = after(opened, Signal.ANSWERED)
    assert answered.given_up == ""
    _, (least_loaded,) = advance(after(answered, EVENTS["closed"]), ServersFound((A, B)), NOW_S)
    assert least_loaded.status.server == "a"


def test_servers_that_do_not_answer_are_left_ever_further_apart():
    state, waits = after(OPEN, Signal.ANSWERED), []
    for _ in range(5):
        state = after(state, Signal.GIVEN_UP)
        waits.append(max(0.0, state.retry_at_s - NOW_S))
        state = reopened(state)
    assert waits[0] == 0
    assert waits[-1] > 4 * waits[1] > 0
