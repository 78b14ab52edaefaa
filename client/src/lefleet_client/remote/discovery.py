"""Which servers are there, which fit a robot, and whether one acknowledged what was asked."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TypeVar

from lefleet_client import wire
from lefleet_client.remote.checks import LONGEST_REASON, shown, status_fault
from lefleet_client.remote.errors import (
    NoServer,
    Refused,
    RemoteError,
    ServerDraining,
    SeveralServices,
    WrongModel,
)
from lefleet_client.remote.observation import RobotFeatures, Sizes, announced_cameras
from lefleet_client.transport import Reply, Transport

_LOG = logging.getLogger(__name__)
_MOST_KINDS = 8
T = TypeVar("T")


def discover(
    transport: Transport,
    service: str = "",
    model: str = "",
    revision: str = "",
    timeout_s: float = 1.0,
    *,
    with_clients: bool = False,
) -> tuple[wire.ServerStatus, ...]:
    """Every server that answers in time, replicas beside each other; an empty name means any.

    A name may be given in full or as the segment of the key that it folds to; where a server has
    exactly this name, the others are not meant. `with_clients` asks for each server's robots too.
    A status that cannot be of its key is ignored, with a warning.
    """
    pattern = wire.matching_servers(model, revision, service).status
    statuses, _ = ask_statuses(transport, pattern, timeout_s, with_clients=with_clients)
    meant = named(statuses, service=service, model=model, revision=revision)
    return tuple(sorted(meant, key=lambda one: (*kind(one), one.server)))


def ask_statuses(
    transport: Transport, pattern: str, timeout_s: float, *, with_clients: bool = False
) -> tuple[tuple[wire.ServerStatus, ...], bool]:
    """The statuses under these keys, and whether every server that was asked has answered.

    A status that cannot be read, or cannot be of its key, is ignored. To read them may take as long
    again as to wait for them; those that are left then are ignored too.
    """
    request = wire.STATUS_REQUEST.encode(wire.StatusRequest(with_clients=with_clients))
    answers = transport.ask(pattern, request, timeout_s)
    found, are_all = read_in_time(answers.replies, _read, timeout_s)
    return tuple(status for _, status in found), answers.is_complete and are_all


def read_in_time(
    replies: Sequence[Reply], read: Callable[[Reply], T | str], timeout_s: float
) -> tuple[list[tuple[str, T]], bool]:
    """Statuses with their keys, and whether there was time for all replies.

    `read` gives the status, or what is wrong with it; such ones are left out, with one warning.
    """
    until_s = time.monotonic() + timeout_s
    in_time = takewhile(lambda _: time.monotonic() < until_s, replies)
    seen = [(reply.key, read(reply)) for reply in in_time]
    faults = [(key, one) for key, one in seen if isinstance(one, str)]
    if faults:
        more = f" ({len(faults) - 1} further ones too)" if faults[1:] else ""
        key, fault_text = faults[0]
        _LOG.warning("%s: the status is ignored: %s%s", shown(key), fault_text, more)
    sound = [(key, one) for key, one in seen if not isinstance(one, str)]
    return sound, len(seen) == len(replies)


def _read(reply: Reply) -> wire.ServerStatus | str:
    """The status, or what is wrong with it."""
    try:
        status = wire.STATUS.decode(reply.payload)
    except wire.BadBody as error:
        return shown(str(error))
    return status_fault(reply.key, status) or status


def kind(status: wire.ServerStatus) -> tuple[str, str, str]:
    """Service, model and revision: replicas have them in common."""
    return status.service, status.capabilities.model, status.capabilities.revision


def named(
    found: Iterable[wire.ServerStatus], *, service: str = "", model: str = "", revision: str = ""
) -> list[wire.ServerStatus]:
    """Those that are meant by these names; an empty name means any."""
    meant = list(found)
    for place, given in enumerate((service, model, revision)):
        if given:
            exact = [one for one in meant if kind(one)[place] == given]
            meant = exact or [one for one in meant if wire.slug(kind(one)[place], "name") == given]
    return meant


@dataclass(frozen=True)
class SessionSpec:
    """What a robot looks for, and what it says about itself; empty names mean any.

    The first session binds all later ones to its names and checkpoint: a robot that moves to
    another server must not come under another policy unasked.
    """

    client_id: str
    endpoints: str
    """Where servers are looked for, as texts name it."""
    service: str = ""
    model: str = ""
    revision: str = ""
    pin_digest: str = ""
    robot: RobotFeatures | None = None
    resize: bool | Sizes = False
    task: str = ""
    wants_rtc: bool = False
    image_codec: wire.CodecChoice = "auto"
    tags: Mapping[str, str] = field(default_factory=dict)
    is_insecure: bool = False
    """Whether the robot's own link goes beyond this machine without TLS."""
    is_bound: bool = False

    @property
    def sought(self) -> str:
        names = {"service": self.service, "model": self.model, "revision": self.revision}
        return " ".join(f"{key} {name!r}" for key, name in names.items() if name) or "any service"

    def bound_to(self, status: wire.ServerStatus, ack: wire.SessionAck) -> "SessionSpec":
        served = ack.capabilities
        return replace(
            self,
            service=status.service,
            model=served.model,
            revision=served.revision,
            pin_digest=served.digest,
            robot=self.robot or RobotFeatures.of(served.contract),
            is_bound=True,
        )

    def opening(
        self, status: wire.ServerStatus, session_epoch: int, *, episode_id: int, seq_id: int
    ) -> wire.SessionOpen:
        """The question; the last two are the numbers that the robot used last."""
        served = status.capabilities
        robot = (self.robot or RobotFeatures.of(served.contract)).facing(served.contract)
        return wire.SessionOpen(
            model=served.model,
            revision=served.revision,
            service=status.service,
            client_id=self.client_id,
            session_epoch=session_epoch,
            action_names=robot.action_names,
            vectors=dict(robot.vectors),
            cameras=announced_cameras(robot, served.contract, self.resize),
            fps=robot.fps,
            robot_type=robot.robot_type,
            task=self.task,
            wants_rtc=self.wants_rtc,
            pin_digest=self.pin_digest,
            image_codec=self.image_codec,
            tags=dict(self.tags),
            episode_id=episode_id,
            seq_id=seq_id,
        )


def candidates(
    spec: SessionSpec, found: tuple[wire.ServerStatus, ...]
) -> tuple[wire.ServerStatus, ...] | RemoteError:
    """The servers to ask, least loaded first, or why there is none; `found` is not empty.

    Ties are broken by a hash of client and server, so that robots spread over equal replicas.
    """
    fitting = named(found, model=spec.model, revision=spec.revision)
    if not fitting:
        accept = "make a new RemotePolicy to accept it" if spec.is_bound else "ask for that"
        return WrongModel(
            f"{spec.sought} is wanted, but {kinds(found)} is served; {accept}, or start a server "
            "with the model that is wanted"
        )
    if len({kind(one) for one in fitting}) > 1:
        return SeveralServices(
            f"several services fit: {kinds(fitting)}; say which one with service, model or revision"
        )
    pinned = [one for one in fitting if spec.pin_digest in ("", one.capabilities.digest)]
    if not pinned:
        return _other_checkpoint(spec, fitting[0].server, fitting[0].capabilities.digest)
    staying = [one for one in pinned if not one.draining]
    if not staying:
        names = shown(", ".join(one.server for one in found))
        return ServerDraining(
            f"{names}: about to stop, and no other replica of {spec.sought} is there; start one, "
            "or try again when the server is back"
        )
    return tuple(
        sorted(staying, key=lambda one: (round(one.load, 1), _tie_break(spec, one.server)))
    )


def nothing_found(spec: SessionSpec, others: tuple[wire.ServerStatus, ...]) -> NoServer:
    there = f"there is {kinds(others)}" if others else "no other server answers either"
    is_listed = (
        ""
        if others or "tls/" not in spec.endpoints
        else (" Is the certificate on the access list (lefleet certs list)?")
    )
    return NoServer(
        f"no server answers for {spec.sought} at {spec.endpoints}; {there}. Is the server running, "
        f"and are address and service right?{is_listed}"
    )


def fault(
    spec: SessionSpec, status: wire.ServerStatus, session_epoch: int, ack: wire.SessionAck
) -> RemoteError | None:
    """What the server acknowledged that was not asked for."""
    served = ack.capabilities
    if spec.pin_digest not in ("", served.digest):
        return _other_checkpoint(spec, status.server, served.digest)
    if ack.instance_id != status.instance_id:
        return NoServer(
            f"server {status.server} was restarted while a session was opened, or two servers have "
            "that name; give each server its own server_name"
        )
    asked = {
        name: (getattr(status.capabilities, name), getattr(served, name))
        for name in served.__struct_fields__
    }
    asked["session_epoch"] = (session_epoch, ack.session_epoch)
    for name, (there, acknowledged) in asked.items():
        if acknowledged != there:
            return NoServer(
                f"server {status.server} is faulty: {name} {shown(repr(there))} was asked for, "
                f"{shown(repr(acknowledged))} acknowledged"
            )
    if not wire.OLDEST_VERSION <= ack.schema_version <= wire.SCHEMA_VERSION:
        return NoServer(
            f"server {status.server} is faulty: schema version {ack.schema_version} was not "
            f"offered; {wire.OLDEST_VERSION} to {wire.SCHEMA_VERSION} were"
        )
    return None


def refusal(
    spec: SessionSpec, status: wire.ServerStatus, rejected: wire.SessionRejected
) -> RemoteError:
    """Why this server does not take the robot; another replica may decide otherwise."""
    check, reason = shown(rejected.check), shown(rejected.reason, LONGEST_REASON)
    text = f"server {status.server} refused the session ({check}): {reason}"
    if check == "draining":
        return ServerDraining(f"{text}; start another replica, or try again when it is back")
    if check == "digest":
        return _other_checkpoint(spec, status.server, status.capabilities.digest)
    if check == "busy":
        # It passes: worth another try, also for a robot that has no session yet.
        return NoServer(text)
    return Refused(check, reason, text)


def kinds(found: Iterable[wire.ServerStatus]) -> str:
    """The services, models and revisions among these servers, the first few of them."""
    there = sorted({kind(one) for one in found})
    first, more = there[:_MOST_KINDS], len(there) - _MOST_KINDS
    names = [f"{service!r} ({model} {revision})" for service, model, revision in first]
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _other_checkpoint(spec: SessionSpec, server: str, digest: str) -> WrongModel:
    text = (
        f"server {server} serves checkpoint {shown(digest[:12])}, pinned is {spec.pin_digest[:12]}"
    )
    if spec.is_bound:
        return WrongModel(
            f"{text}: it serves another checkpoint now; make a new RemotePolicy to accept it"
        )
    return WrongModel(f"{text}; change pin_digest, or start a server with that checkpoint")


def _tie_break(spec: SessionSpec, server: str) -> bytes:
    return hashlib.sha256(f"{spec.client_id} {server}".encode()).digest()
