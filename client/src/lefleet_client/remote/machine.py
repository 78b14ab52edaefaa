"""The connection as a pure state machine: an event and the clock in, a state and actions out.

    SEARCHING ──servers found──► OPENING ──acknowledged──► OPEN ──lost, or draining
        ▲  │                        │                              and a send is asked──► SEARCHING
        │  └──none fits──► BACKOFF ◄┘ none takes the robot
        └────retry time──────┘

    From OPEN to BACKOFF: overtaken, or lost again before a chunk came.
    FAILED   the trouble is to be raised; then SEARCHING again, except after Replaced
    CLOSED   for good

Nothing here does I/O or reads a clock. `Connection` performs the actions in their order, and feeds
what they give back as events. Messages of the server are events as they are on the wire.
"""

import hashlib
from dataclasses import replace

from lefleet_client import wire
from lefleet_client.remote.checks import LONGEST_REASON, shown
from lefleet_client.remote.discovery import SessionSpec, candidates, fault, nothing_found, refusal
from lefleet_client.remote.errors import (
    NoServer,
    Refused,
    RemoteError,
    Replaced,
    RequestRejected,
    ServerDraining,
    SeveralServices,
    WrongModel,
)
from lefleet_client.remote.states import (
    Check,
    ClientSession,
    CodecChosen,
    ConnectionEvent,
    ConnectionNotice,
    ConnectionState,
    Discover,
    ForeignDigest,
    InstancesSeen,
    LeaveServer,
    NoSession,
    NoticeKind,
    OpenSession,
    Overtaken,
    Phase,
    ServersFound,
    Signal,
    Transition,
)

FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 2.0
MOST_OVERTAKEN = 3
"""New sessions before a robot gives up whose numbers the server finds old in each of them."""
_MISSES = 2
"""So many complete searches must miss a service: several endpoints do not connect at once."""
_EPOCHS = 2**32
_MOST_WARNINGS = 16
_INSECURE = (
    "insecure: anybody on its network can read observations and forge actions; use TLS (lefleet "
    "certs)"
)
_IS_ANSWER = (Refused, ServerDraining, SeveralServices, WrongModel)
"""On a first try these are worth more than patience. Later a server may be about to come back."""


def begin(spec: SessionSpec, session_epoch: int) -> Transition:
    """The first step; the first session has the epoch after `session_epoch`."""
    return _search(ConnectionState(spec, session_epoch, nothing_found(spec, ())))


def advance(state: ConnectionState, event: ConnectionEvent, now_s: float) -> Transition:
    """What an event leads to; an event that means nothing in this phase changes nothing."""
    if event is Signal.CLOSE_ASKED and state.phase is not Phase.CLOSED:
        is_there = state.phase is Phase.OPEN and state.gone_since_s is None
        session_id = state.session.ack.session_id if state.session and is_there else ""
        return replace(state, phase=Phase.CLOSED), (LeaveServer(session_id),)
    if event is Signal.INTERRUPTED and state.is_busy:
        return replace(state, phase=Phase.BACKOFF, retry_at_s=now_s), (LeaveServer(),)
    if state.phase is Phase.SEARCHING:
        return _in_searching(state, event, now_s)
    if state.phase is Phase.OPENING:
        return _in_opening(state, event, now_s)
    if state.phase is Phase.OPEN and state.session is not None:
        return _in_open(state, state.session, event, now_s)
    if state.phase is Phase.BACKOFF:
        return _in_backoff(state, event, now_s)
    is_final = isinstance(state.trouble, Replaced)
    if state.phase is Phase.FAILED and event is Signal.FAILURE_RAISED and not is_final:
        return _search(state)
    return state, ()


def _in_searching(state: ConnectionState, event: ConnectionEvent, now_s: float) -> Transition:
    if not isinstance(event, ServersFound):
        return state, ()
    if event.servers:
        chosen = candidates(state.spec, event.servers)
        if isinstance(chosen, RemoteError):
            return _rest(replace(state, misses=0), chosen, now_s)
        # A stable sort: among the others the least loaded one stays the first.
        willing_first = tuple(sorted(chosen, key=lambda one: one.server == state.given_up))
        return _open_first(replace(state, candidates=willing_first, misses=0))
    trouble = nothing_found(state.spec, event.others)
    is_miss = bool(event.others) and event.is_complete
    state = replace(state, misses=state.misses + 1 if is_miss else 0)
    if state.misses >= _MISSES:
        return replace(state, phase=Phase.FAILED, trouble=trouble, misses=0), ()
    return _rest(state, trouble, now_s)


def _in_opening(state: ConnectionState, event: ConnectionEvent, now_s: float) -> Transition:
    status = state.candidates[0]
    if isinstance(event, wire.SessionAck):
        trouble = fault(state.spec, status, state.session_epoch, event)
        if trouble is not None:
            return _open_next(state, trouble, now_s, close=event.session_id)
        return _opened(state, status, event)
    if isinstance(event, wire.SessionRejected):
        return _open_next(state, refusal(state.spec, status, event), now_s)
    if isinstance(event, NoSession):
        trouble = NoServer(
            f"server {status.server} was found but opened no session: {event.reason}"
        )
        return _open_next(state, trouble, now_s)
    return state, ()


def _opened(state: ConnectionState, status: wire.ServerStatus, ack: wire.SessionAck) -> Transition:
    opened = replace(
        state,
        phase=Phase.OPEN,
        spec=state.spec if state.spec.is_bound else state.spec.bound_to(status, ack),
        session=ClientSession(status, ack),
        candidates=(),
        is_draining=False,
        gone_since_s=None,
    )
    warnings = tuple(shown(one, LONGEST_REASON) for one in ack.warnings[:_MOST_WARNINGS])
    if ack.insecure or state.spec.is_insecure:
        warnings = (_INSECURE, *warnings)
    return opened, (replace(_notice(opened, "opened"), warnings=warnings),)


def _in_open(
    state: ConnectionState, session: ClientSession, event: ConnectionEvent, now_s: float
) -> Transition:
    is_gone = state.gone_since_s is not None
    match event:
        case wire.SessionClosed(reason=reason) if reason.startswith(wire.REPLACED):
            return _replaced(state, session)
        case ForeignDigest(digest=digest):
            return _foreign(state, session, digest)
        case Overtaken(reason=reason):
            return _overtaken(state, session, reason, now_s)
        case Signal.ANSWERED if state.overtaken or state.rounds or state.given_up:
            return replace(state, overtaken=0, rounds=0, given_up=""), ()
        case Signal.GIVEN_UP:
            left = replace(state, given_up=session.status.server)
            lost, actions = _lose(left, "does not answer", now_s)
            return lost, (LeaveServer(session.ack.session_id), *actions[1:])
        case _ if reason := _loss(state, session, event, now_s):
            return _lose(state, reason, now_s)
        case wire.Draining() if not state.is_draining:
            return replace(state, is_draining=True), (_notice(state, "draining"),)
        case Signal.PRESENCE_LOST if not is_gone:
            return replace(state, gone_since_s=now_s), ()
        case Signal.PRESENCE_BACK if is_gone:
            return replace(state, gone_since_s=None), (Check.INSTANCE,)
        case Signal.ANSWER_OVERDUE:
            return state, (Check.PRESENCE,)
        case InstancesSeen(instance_ids=ids) if len(ids) > 1:
            return state, (_notice(state, "twin"),)
        case CodecChosen(codec=codec):
            return replace(state, session=replace(session, codec=codec)), ()
    return state, ()


def _loss(
    state: ConnectionState, session: ClientSession, event: ConnectionEvent, now_s: float
) -> str:
    """Why the session is over after this event, to end a sentence; empty if it is not."""
    match event:
        case wire.SessionClosed(reason=reason):
            return f"closed the session: {shown(reason)}"
        case InstancesSeen(instance_ids=ids) if ids and session.ack.instance_id not in ids:
            return "was restarted"
        case Signal.ANSWER_OVERDUE | Signal.SEND_ASKED if state.is_draining:
            return "is about to stop"
        case Signal.SEND_ASKED if not state.is_usable:
            return "went away"
        case Signal.TICK if now_s >= state.wake_at_s:
            return "went away"
        case Signal.SERVER_MISSING:
            return "went away"
    return ""


def _in_backoff(state: ConnectionState, event: ConnectionEvent, now_s: float) -> Transition:
    if event is Signal.TICK and now_s >= state.retry_at_s:
        return _search(state)
    if event is Signal.SERVER_APPEARED:
        soon_s = now_s + backoff_s(state.spec.client_id, 0)
        return replace(state, retry_at_s=min(state.retry_at_s, soon_s)), ()
    return state, ()


def _replaced(state: ConnectionState, session: ClientSession) -> Transition:
    trouble = Replaced(
        f"another process opened a session on server {session.status.server} with client_id "
        f"{state.spec.client_id!r}; give each process its own client_id (with TLS: its own "
        "certificate), and make a new RemotePolicy here"
    )
    failed = replace(state, phase=Phase.FAILED, trouble=trouble)
    return failed, (LeaveServer(), _notice(state, "replaced"))


def _foreign(state: ConnectionState, session: ClientSession, digest: str) -> Transition:
    server = session.status.server
    trouble = WrongModel(
        f"a chunk of server {server} was computed by checkpoint {shown(digest[:12])}, and the "
        f"session is for {session.ack.capabilities.digest[:12]}; stop the other server that is "
        f"named {server}"
    )
    leave = LeaveServer(session.ack.session_id)
    failed = replace(state, phase=Phase.FAILED, trouble=trouble)
    return failed, (leave, _notice(state, "lost", "sent a chunk of another checkpoint"))


def _overtaken(
    state: ConnectionState, session: ClientSession, reason: str, now_s: float
) -> Transition:
    """Open a new session, which counts from this robot's numbers; after some of them, fail."""
    trouble = RequestRejected(
        shown(reason),
        f"server {session.status.server} has seen newer observations under client_id "
        f"{state.spec.client_id!r} than this robot sent, in {state.overtaken + 1} sessions in a "
        "row: another program uses this client_id, or sends forged ones; give each program its "
        "own client_id, and use TLS",
    )
    actions = (LeaveServer(session.ack.session_id), _notice(state, "overtaken", shown(reason)))
    if state.overtaken >= MOST_OVERTAKEN:
        return replace(state, phase=Phase.FAILED, trouble=trouble, overtaken=0), actions
    return _wait(replace(state, overtaken=state.overtaken + 1), trouble, now_s), actions


def _lose(state: ConnectionState, reason: str, now_s: float) -> Transition:
    """The session is over; look for another server: at once, or later if none gave a chunk yet."""
    notice = _notice(state, "lost", reason)
    trouble = NoServer(
        f"server {notice.server} {reason}, and no other server has taken over for "
        f"{state.spec.sought} at {state.spec.endpoints}"
    )
    if state.rounds:
        return _wait(state, trouble, now_s), (LeaveServer(), notice)
    searching, actions = _search(replace(state, trouble=trouble, rounds=1))
    return searching, (LeaveServer(), notice, *actions)


def _search(state: ConnectionState) -> Transition:
    spec = state.spec
    with_others = bool(spec.service) and not spec.is_bound
    return replace(state, phase=Phase.SEARCHING), (Discover(spec.service, with_others),)


def _open_first(state: ConnectionState) -> Transition:
    """Ask the first candidate, under an epoch that no answer to an earlier attempt has."""
    session_epoch = (state.session_epoch + 1) % _EPOCHS
    status = state.candidates[0]
    opening = replace(state, phase=Phase.OPENING, session_epoch=session_epoch)
    return opening, (OpenSession(status, session_epoch, is_last=len(state.candidates) == 1),)


def _open_next(
    state: ConnectionState, trouble: RemoteError, now_s: float, *, close: str = ""
) -> Transition:
    left = replace(state, candidates=state.candidates[1:], trouble=trouble)
    following, actions = _open_first(left) if left.candidates else _rest(left, trouble, now_s)
    return following, (LeaveServer(close), *actions)


def _rest(state: ConnectionState, trouble: RemoteError, now_s: float) -> Transition:
    """A search gave nothing: fail with an answer on a first try, else search again later."""
    if isinstance(trouble, _IS_ANSWER) and not state.spec.is_bound:
        return replace(state, phase=Phase.FAILED, trouble=trouble), ()
    return _wait(state, trouble, now_s), ()


def _wait(state: ConnectionState, trouble: RemoteError, now_s: float) -> ConnectionState:
    """Search again later, and later still the next time."""
    retry_at_s = now_s + backoff_s(state.spec.client_id, state.rounds)
    waiting = replace(state, phase=Phase.BACKOFF, trouble=trouble, retry_at_s=retry_at_s)
    return replace(waiting, rounds=state.rounds + 1)


def backoff_s(client_id: str, rounds: int) -> float:
    """Doubles each time up to a limit; a hash of the client takes off up to half of it.

    So robots that lost one server do not all ask at the same moment.
    """
    longest_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(rounds, 16))
    digest = hashlib.sha256(f"{client_id} {rounds}".encode()).digest()
    return longest_s * (1 - int.from_bytes(digest[:4], "big") / 2**33)


def _notice(state: ConnectionState, kind: NoticeKind, reason: str = "") -> ConnectionNotice:
    server = state.session.status.server if state.session is not None else ""
    return ConnectionNotice(kind, server, state.session_epoch, reason)
