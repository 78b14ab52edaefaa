"""Which servers fit what a robot wants, and whether a server acknowledged what was asked for."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lefleet_client.remote.discovery import kind, named
from lefleet_client.remote.errors import (
    NoServer,
    Refused,
    RemoteError,
    ServerDraining,
    SeveralServices,
    WrongModel,
)
from lefleet_client.remote.observation import RobotFeatures
from lefleet_client.wire import (
    OLDEST_VERSION,
    SCHEMA_VERSION,
    CodecChoice,
    ServerStatus,
    SessionAck,
    SessionOpen,
    SessionRejected,
)


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
    task: str = ""
    wants_rtc: bool = False
    image_codec: CodecChoice = "auto"
    tags: Mapping[str, str] = field(default_factory=dict)
    is_bound: bool = False

    @property
    def sought(self) -> str:
        names = {"service": self.service, "model": self.model, "revision": self.revision}
        return " ".join(f"{key} {name!r}" for key, name in names.items() if name) or "any service"

    def bound_to(self, status: ServerStatus, ack: SessionAck) -> "SessionSpec":
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

    def opening(self, status: ServerStatus, session_epoch: int) -> SessionOpen:
        served = status.capabilities
        robot = self.robot or RobotFeatures.of(served.contract)
        return SessionOpen(
            model=served.model,
            revision=served.revision,
            service=status.service,
            client_id=self.client_id,
            session_epoch=session_epoch,
            action_names=robot.action_names,
            vectors=dict(robot.vectors),
            cameras=dict(robot.cameras),
            fps=robot.fps,
            robot_type=robot.robot_type,
            task=self.task,
            wants_rtc=self.wants_rtc,
            pin_digest=self.pin_digest,
            image_codec=self.image_codec,
            tags=dict(self.tags),
        )


def candidates(
    spec: SessionSpec, found: tuple[ServerStatus, ...]
) -> tuple[ServerStatus, ...] | RemoteError:
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
        names = ", ".join(one.server for one in found)
        return ServerDraining(
            f"{names}: about to stop, and no other replica of {spec.sought} is there; start one, "
            "or try again when the server is back"
        )
    return tuple(
        sorted(staying, key=lambda one: (round(one.load, 1), _tie_break(spec, one.server)))
    )


def nothing_found(spec: SessionSpec, others: tuple[ServerStatus, ...]) -> NoServer:
    there = f"there is {kinds(others)}" if others else "no other server answers either"
    return NoServer(
        f"no server answers for {spec.sought} at {spec.endpoints}; {there}. Is the server running, "
        "and are address and service right?"
    )


def fault(
    spec: SessionSpec, status: ServerStatus, session_epoch: int, ack: SessionAck
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
        "model": (status.capabilities.model, served.model),
        "revision": (status.capabilities.revision, served.revision),
        "session_epoch": (session_epoch, ack.session_epoch),
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


def refusal(spec: SessionSpec, status: ServerStatus, rejected: SessionRejected) -> RemoteError:
    """Why this server does not take the robot; another replica may decide otherwise."""
    text = f"server {status.server} refused the session ({rejected.check}): {rejected.reason}"
    if rejected.check == "draining":
        return ServerDraining(f"{text}; start another replica, or try again when it is back")
    if rejected.check == "digest":
        return _other_checkpoint(spec, status.server, status.capabilities.digest)
    return Refused(rejected.check, rejected.reason, text)


def kinds(found: Iterable[ServerStatus]) -> str:
    """The services, models and revisions among these servers."""
    return ", ".join(
        f"{service!r} ({model} {revision})"
        for service, model, revision in sorted({kind(one) for one in found})
    )


def _other_checkpoint(spec: SessionSpec, server: str, digest: str) -> WrongModel:
    text = f"server {server} serves checkpoint {digest[:12]}, pinned is {spec.pin_digest[:12]}"
    if spec.is_bound:
        return WrongModel(
            f"{text}: it serves another checkpoint now; make a new RemotePolicy to accept it"
        )
    return WrongModel(f"{text}; change pin_digest, or start a server with that checkpoint")


def _tie_break(spec: SessionSpec, server: str) -> bytes:
    return hashlib.sha256(f"{spec.client_id} {server}".encode()).digest()
