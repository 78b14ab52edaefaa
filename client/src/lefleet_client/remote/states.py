"""What the connection's state machine works with: its state, its events and its actions."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from lefleet_client import wire
from lefleet_client.remote.discovery import SessionSpec
from lefleet_client.remote.errors import RemoteError
from lefleet_client.remote.observation import Codec

GRACE_S = 0.05
"""A lost token counts after this: the news that the server drains may arrive just behind it."""


class Phase(Enum):
    SEARCHING = auto()
    OPENING = auto()
    OPEN = auto()
    BACKOFF = auto()
    FAILED = auto()
    CLOSED = auto()


@dataclass(frozen=True)
class ClientSession:
    """A session that a server acknowledged; `codec` is None until images are first sent in it."""

    status: wire.ServerStatus
    ack: wire.SessionAck
    codec: Codec | None = None


@dataclass(frozen=True)
class ConnectionState:
    """All that the next step depends on, besides the event and the clock."""

    spec: SessionSpec
    session_epoch: int
    """Of the newest session, or of the newest attempt to open one."""
    trouble: RemoteError
    """Why there is no session; outdated in OPEN."""
    phase: Phase = Phase.SEARCHING
    session: ClientSession | None = None
    """The newest one, open or lost."""
    candidates: tuple[wire.ServerStatus, ...] = ()
    """Servers still to be asked for a session, the first of them now."""
    is_draining: bool = False
    gone_since_s: float | None = None
    rounds: int = 0
    """Searches and sessions in a row that gave no chunk."""
    overtaken: int = 0
    """Sessions in a row in which the server knew newer numbers than this robot's."""
    misses: int = 0
    """Complete searches in a row that found other services only."""
    given_up: str = ""
    """The server that was left because it did not answer: asked last until a chunk came."""
    retry_at_s: float = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether an action has yet to give something back."""
        return self.phase in (Phase.SEARCHING, Phase.OPENING)

    @property
    def is_usable(self) -> bool:
        """Whether the next observation can be sent in this session."""
        is_open = self.phase is Phase.OPEN
        return is_open and not self.is_draining and self.gone_since_s is None

    @property
    def wake_at_s(self) -> float:
        """When a TICK changes something; infinite if none does."""
        if self.phase is Phase.BACKOFF:
            return self.retry_at_s
        if self.phase is Phase.OPEN and self.gone_since_s is not None and not self.is_draining:
            return self.gone_since_s + GRACE_S
        return float("inf")


class Signal(Enum):
    """Events without content."""

    PRESENCE_LOST = "the server's token disappeared"
    PRESENCE_BACK = "the server's token is there"
    SERVER_APPEARED = "the token of another server is there"
    SERVER_MISSING = "Check.PRESENCE found no token"
    ANSWER_OVERDUE = "an observation is unanswered for so long that it is sent again"
    ANSWERED = "a chunk came for the newest observation"
    SEND_ASKED = "the caller wants to send an observation"
    GIVEN_UP = "the caller wants another server, because this one does not answer"
    FAILURE_RAISED = "the caller got the trouble of FAILED"
    INTERRUPTED = "an exception ended an action, which gives nothing back"
    CLOSE_ASKED = "the caller needs the connection no more"
    TICK = "time has passed"


@dataclass(frozen=True)
class ServersFound:
    """What Discover gives back; `others` are servers of other services, if it asked for them."""

    servers: tuple[wire.ServerStatus, ...]
    others: tuple[wire.ServerStatus, ...] = ()
    is_complete: bool = True


@dataclass(frozen=True)
class NoSession:
    """What OpenSession gives back without a readable answer."""

    reason: str


@dataclass(frozen=True)
class InstancesSeen:
    """What Check.INSTANCE gives back; empty when no server answered in time."""

    instance_ids: frozenset[str]


@dataclass(frozen=True)
class ForeignDigest:
    """A chunk came that another checkpoint computed."""

    digest: str


@dataclass(frozen=True)
class Overtaken:
    """The server knows a newer episode or number in this session, and this robot sent none."""

    reason: str


@dataclass(frozen=True)
class CodecChosen:
    """How images of this session are sent."""

    codec: Codec


ConnectionEvent = (
    Signal
    | ServersFound
    | wire.SessionAck
    | wire.SessionRejected
    | NoSession
    | wire.Draining
    | wire.SessionClosed
    | InstancesSeen
    | ForeignDigest
    | Overtaken
    | CodecChosen
)


@dataclass(frozen=True)
class Discover:
    """Ask for servers of the service; where there are none, and `with_others`, for all servers."""

    service: str
    with_others: bool


@dataclass(frozen=True)
class OpenSession:
    """Ask a server for a session; the last candidate may take all the time that is left."""

    status: wire.ServerStatus
    session_epoch: int
    is_last: bool


class Check(Enum):
    """Ask what became of the server."""

    PRESENCE = "is its token there? It can vanish unseen while the network is down"
    INSTANCE = "which instances answer under its name?"


@dataclass(frozen=True)
class LeaveServer:
    """Undeclare all that belongs to the session or the attempt; with an id, close that session."""

    session_id: str = ""


NoticeKind = Literal["opened", "draining", "lost", "overtaken", "replaced", "twin"]


@dataclass(frozen=True)
class ConnectionNotice:
    """News for the user of the connection, who need not react."""

    kind: NoticeKind
    server: str
    session_epoch: int
    reason: str = ""
    warnings: tuple[str, ...] = ()


ConnectionAction = Discover | OpenSession | Check | LeaveServer | ConnectionNotice
Transition = tuple[ConnectionState, tuple[ConnectionAction, ...]]
