"""Finds a server and opens a session on it, or says why that cannot be."""

import hashlib
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from lefleet_client.remote.discovery import discover, kind, named
from lefleet_client.remote.errors import (
    NoServer,
    Refused,
    RemoteError,
    ServerDraining,
    SeveralServices,
    WrongModel,
)
from lefleet_client.remote.features import RobotFeatures
from lefleet_client.remote.link import Link
from lefleet_client.transport import AnswerFailed, NoAnswer, Transport
from lefleet_client.wire import (
    OLDEST_VERSION,
    SCHEMA_VERSION,
    BadBody,
    CodecChoice,
    ServerStatus,
    SessionAck,
    SessionOpen,
    SessionRejected,
)

_ASK_AGAIN_S = 0.1
_LOOK_AROUND_S = 0.3
_EPOCHS = 2**32


@dataclass(frozen=True)
class Wanted:
    """What a robot looks for, and what it says about itself."""

    service: str
    model: str
    revision: str
    pin_digest: str
    client_id: str
    robot: RobotFeatures | None
    task: str
    wants_rtc: bool
    image_codec: CodecChoice
    tags: dict[str, str] = field(default_factory=dict)


class Opener:
    """Opens sessions one after the other, each with the next epoch, until `is_ending`.

    The first session's names and checkpoint bind all later ones: a robot that moves must not come
    under another policy unasked.
    """

    def __init__(
        self,
        transport: Transport,
        wanted: Wanted,
        *,
        places: str,
        ask_timeout_s: float,
    ) -> None:
        self._transport = transport
        self._wanted = wanted
        self._places = places
        self._ask_timeout_s = ask_timeout_s
        self._epoch = random.randrange(_EPOCHS)
        self._is_first = True
        self.is_ending = False

    def require_open(self) -> None:
        if self.is_ending:
            raise RemoteError("this RemotePolicy is closed; make a new one")

    def open(self, deadline_s: float) -> tuple[Link, SessionAck]:
        """A session on the least loaded server that takes the robot, if one does in time."""
        while True:
            self.require_open()
            outcome = self._ask_all(deadline_s)
            if isinstance(outcome, tuple):
                self._bind(*outcome)
                return outcome
            # On a first try an answer is worth more than patience. Later the robot is in the
            # middle of something, and a server may be about to come back.
            is_answer = isinstance(outcome, Refused | ServerDraining | SeveralServices | WrongModel)
            is_late = time.monotonic() + _ASK_AGAIN_S >= deadline_s
            if is_late or (self._is_first and is_answer):
                raise outcome if is_answer else self._explained(outcome, deadline_s)
            time.sleep(_ASK_AGAIN_S)

    def _ask_all(self, deadline_s: float) -> tuple[Link, SessionAck] | RemoteError:
        """Ask each candidate in turn; at the end, why the last of them was of no use."""
        left_s = _left_s(deadline_s)
        found = discover(
            self._transport,
            service=self._wanted.service,
            timeout_s=min(left_s, self._ask_timeout_s / 2),
        )
        if not found:
            return NoServer(f"no server answers for {self._sought} at {self._places}")
        candidates = self._candidates(found)
        if isinstance(candidates, RemoteError):
            return candidates
        if not candidates:
            names = ", ".join(one.server for one in found)
            return ServerDraining(
                f"{names}: about to stop, and no other replica of {self._sought} is there; start "
                "one, or try again when the server is back"
            )
        trouble: RemoteError = NoServer(f"no answer from {candidates[0].server}")
        for status in candidates:
            left_s = _left_s(deadline_s)
            is_last = status is candidates[-1]
            outcome = self._ask(status, left_s if is_last else min(left_s, self._ask_timeout_s))
            if isinstance(outcome, tuple):
                return outcome
            trouble = outcome
        return trouble

    def _candidates(self, found: tuple[ServerStatus, ...]) -> list[ServerStatus] | RemoteError:
        """Those that fit and stay, least loaded first; robots spread over equal ones."""
        wanted = self._wanted
        fitting = named(found, model=wanted.model, revision=wanted.revision)
        if not fitting:
            accept = "ask for that" if self._is_first else "make a new RemotePolicy to accept it"
            return WrongModel(
                f"{self._sought} is wanted, but {_kinds(found)} is served; {accept}, or start "
                "a server with the model that is wanted"
            )
        if len({kind(one) for one in fitting}) > 1:
            return SeveralServices(
                f"several services fit: {_kinds(fitting)}; say which one with service, model or "
                "revision"
            )
        pinned = [one for one in fitting if wanted.pin_digest in ("", one.capabilities.digest)]
        if not pinned:
            return self._other_checkpoint(fitting[0].server, fitting[0].capabilities.digest)
        staying = [one for one in pinned if not one.draining]
        return sorted(staying, key=lambda one: (round(one.load, 1), self._lot(one)))

    def _lot(self, status: ServerStatus) -> bytes:
        """Different for each robot, and the same every time it asks."""
        return hashlib.sha256(f"{self._wanted.client_id} {status.server}".encode()).digest()

    def _ask(self, status: ServerStatus, timeout_s: float) -> tuple[Link, SessionAck] | RemoteError:
        self._epoch = (self._epoch + 1) % _EPOCHS
        link = Link(self._transport, status, self._opening(status))
        try:
            reply = link.open(timeout_s)
        except (AnswerFailed, NoAnswer, BadBody) as error:
            link.close(say_goodbye=False)
            return NoServer(f"server {status.server} was found but opened no session: {error}")
        except BaseException:
            link.close(say_goodbye=False)
            raise
        if isinstance(reply, SessionAck):
            trouble = self._fault(status, reply)
            if trouble is None:
                return link, reply
            link.close(say_goodbye=True)
            return trouble
        link.close(say_goodbye=False)
        if not isinstance(reply, SessionRejected):
            return NoServer(f"server {status.server} answered {type(reply).__name__}, no session")
        return self._refusal(status, reply)

    def _fault(self, status: ServerStatus, ack: SessionAck) -> RemoteError | None:
        """What the server acknowledged that was not asked for."""
        if self._wanted.pin_digest not in ("", ack.capabilities.digest):
            return self._other_checkpoint(status.server, ack.capabilities.digest)
        asked = {
            "model": (status.capabilities.model, ack.capabilities.model),
            "revision": (status.capabilities.revision, ack.capabilities.revision),
            "session_epoch": (self._epoch, ack.session_epoch),
        }
        for name, (there, acknowledged) in asked.items():
            if acknowledged != there:
                return NoServer(
                    f"server {status.server} is faulty: {name} {there!r} was asked for, "
                    f"{acknowledged!r} acknowledged"
                )
        if not OLDEST_VERSION <= ack.schema_version <= SCHEMA_VERSION:
            return NoServer(
                f"server {status.server} is faulty: schema version {ack.schema_version} was not "
                f"offered; {OLDEST_VERSION} to {SCHEMA_VERSION} were"
            )
        return None

    def _refusal(self, status: ServerStatus, rejected: SessionRejected) -> RemoteError:
        """Why not; another replica may be of another opinion."""
        text = f"server {status.server} refused the session ({rejected.check}): {rejected.reason}"
        refused = Refused(rejected.check, rejected.reason, text)
        if rejected.check == "draining":
            return ServerDraining(f"{text}; start another replica, or try again when it is back")
        if rejected.check == "digest":
            return self._other_checkpoint(status.server, status.capabilities.digest)
        return refused

    def _opening(self, status: ServerStatus) -> SessionOpen:
        wanted = self._wanted
        robot = wanted.robot or RobotFeatures.of(status.capabilities.contract)
        return SessionOpen(
            model=status.capabilities.model,
            revision=status.capabilities.revision,
            service=status.service,
            client_id=wanted.client_id,
            session_epoch=self._epoch,
            action_names=robot.action_names,
            vectors=dict(robot.vectors),
            cameras=dict(robot.cameras),
            fps=robot.fps,
            robot_type=robot.robot_type,
            task=wanted.task,
            wants_rtc=wanted.wants_rtc,
            pin_digest=wanted.pin_digest,
            image_codec=wanted.image_codec,
            tags=wanted.tags,
        )

    def _bind(self, link: Link, ack: SessionAck) -> None:
        if self._is_first:
            self._is_first = False
            self._wanted = replace(
                self._wanted,
                service=link.service,
                model=ack.capabilities.model,
                revision=ack.capabilities.revision,
                pin_digest=ack.capabilities.digest,
                robot=self._wanted.robot or RobotFeatures.of(ack.capabilities.contract),
            )

    def _other_checkpoint(self, server: str, digest: str) -> WrongModel:
        pinned = self._wanted.pin_digest
        text = f"server {server} serves checkpoint {digest[:12]}, pinned is {pinned[:12]}"
        if self._is_first:
            return WrongModel(f"{text}; change pin_digest, or start a server with that checkpoint")
        return WrongModel(
            f"{text}: it serves another checkpoint now; make a new RemotePolicy to accept it"
        )

    @property
    def _sought(self) -> str:
        wanted = self._wanted
        names = {"service": wanted.service, "model": wanted.model, "revision": wanted.revision}
        return " ".join(f"{key} {name!r}" for key, name in names.items() if name) or "any service"

    def _explained(self, trouble: RemoteError, deadline_s: float) -> RemoteError:
        """The same with what else is there, which is most often a misspelt name."""
        others = discover(self._transport, timeout_s=min(_left_s(deadline_s), _LOOK_AROUND_S))
        there = f"there is {_kinds(others)}" if others else "nobody else answers either"
        return NoServer(
            f"{trouble}; {there}. Is the server running, and are address and service right?"
        )


def _left_s(deadline_s: float) -> float:
    """Also at the very end there is time to hear those who answer at once."""
    return max(0.05, deadline_s - time.monotonic())


def _kinds(found: Iterable[ServerStatus]) -> str:
    kinds = sorted({kind(one) for one in found})
    return ", ".join(f"{service!r} ({model} {revision})" for service, model, revision in kinds)
