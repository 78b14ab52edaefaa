"""A policy that runs elsewhere: observations in, chunks out."""

import itertools
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, SupportsIndex

from numpy.typing import NDArray

from lefleet_client.remote.connection import Connection
from lefleet_client.remote.discovery import SessionSpec
from lefleet_client.remote.errors import NoServer, RemoteError
from lefleet_client.remote.exchange import Exchange, RemoteChunk
from lefleet_client.remote.guard import CallGuard
from lefleet_client.remote.observation import (
    ArrayFrame,
    ObservationReader,
    ObservationRequest,
    RobotFeatures,
    Sizes,
    SplitFrame,
    announced_cameras,
    prefix,
    require_resizing,
    sent_sizes,
    whole,
)
from lefleet_client.remote.states import ConnectionNotice
from lefleet_client.transport import (
    CannotOpen,
    Closed,
    Forked,
    ThreadsEnded,
    Tls,
    Transport,
    ZenohSettings,
    ZenohTransport,
    certified_name,
    tls_warnings,
)
from lefleet_client.wire import CodecChoice, SessionAck

_LOG = logging.getLogger(__name__)

_SHORTEST_RESEND_S = 0.5
_FIRST_RESEND_S = 1.0
_ROLES = ("robot", "operator")
"""Whose certificates may have a session; an operator's is for ping."""


class RemotePolicy:
    """Asks a policy server for chunks, and finds another one when that goes away.

    with RemotePolicy("tls/10.0.0.5:7447", "fold", robot=features, tls="certs/robot-arm") as policy:
        chunk = policy.infer({"observation.state": state, "observation.images.top": rgb})

    One endpoint is a router or a server; with several, this node connects to each of them, so that
    replicas need no router. Without `robot` the server's order of columns is taken as it is: a
    robot whose motors are in another order then moves wrongly, without any error.

    `resize` is off, True for the sizes of the contract's cameras, or sizes (height, width) by key.

    `tls` is a folder that `lefleet certs` made, or its three files. Its certificate then has the
    robot's name, which is the `client_id`: leave that out. Without `tls` only endpoints on this
    machine are accepted, unless `insecure` is said; each session then logs a warning.

    A call takes `timeout_s` at most; making one takes `connect_timeout_s` more, for the network.

    One thread calls at a time: a second one gets an error at once. `close` may be called from any
    thread, and from a signal handler. Callbacks of the transport only fill an inbox. One that is
    garbage, or still open when the program is over, is closed by a thread of `transport.exit`.
    """

    def __init__(
        self,
        connect: str | Sequence[str],
        service: str = "",
        *,
        robot: RobotFeatures | None = None,
        model: str = "",
        revision: str = "",
        client_id: str = "",
        task: str = "",
        pin_digest: str = "",
        image_codec: CodecChoice = "auto",
        jpeg_quality: int = 90,
        resize: bool | Sizes = False,
        wants_rtc: bool = False,
        tags: Mapping[str, str] | None = None,
        timeout_s: float = 5.0,
        connect_timeout_s: float = 2.0,
        tls: Tls | str | Path | None = None,
        insecure: bool = False,
        zenoh_extra: Mapping[str, Any] | None = None,
        transport: Transport | None = None,
    ) -> None:
        if not 1 <= jpeg_quality <= 100:
            raise ValueError(f"jpeg_quality: {jpeg_quality} is not 1 to 100")
        if resize:
            require_resizing()
        endpoints = (connect,) if isinstance(connect, str) else tuple(connect)
        if not endpoints:
            raise ValueError("connect: at least one endpoint is needed, such as tls/10.0.0.5:7447")
        self._task = task
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._image_codec: CodecChoice = image_codec
        self._jpeg_quality = jpeg_quality
        self._resize = resize
        self._seq_ids = itertools.count()
        self._episode_id = 0
        self._resend_s = _FIRST_RESEND_S
        self._robot = robot
        self._checked_session = ""
        certificates = Tls.folder(tls) if isinstance(tls, str | Path) else tls
        settings = ZenohSettings(
            mode="client" if len(endpoints) == 1 else "peer",
            connect=endpoints,
            tls=certificates,
            insecure=insecure,
            open_timeout_s=connect_timeout_s,
            extra=dict(zenoh_extra or {}),
        )
        client_id = certified_name(certificates, client_id, "client_id", _ROLES)
        spec = SessionSpec(
            client_id=client_id or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}",
            endpoints=", ".join(endpoints),
            service=service,
            model=model,
            revision=revision,
            pin_digest=pin_digest,
            robot=robot,
            resize=resize,
            task=task,
            wants_rtc=wants_rtc,
            image_codec=image_codec,
            tags=dict(tags or {}),
            is_insecure=transport is None and settings.is_insecure,
        )
        owned: tuple[Transport, ...] = ()
        if transport is None:
            if certificates is not None:
                for warning in tls_warnings(certificates, datetime.now(timezone.utc)):
                    _LOG.warning("%s", warning)
            transport = _open_node(settings)
            owned = (transport,)
        self._node = transport
        self._client_id = spec.client_id
        self._connection = Connection(transport, spec, ask_timeout_s=connect_timeout_s)
        self._guard = CallGuard(self._connection, owned, self)
        try:
            with self._guard.call():
                self._connection.ready(time.monotonic() + timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def ack(self) -> SessionAck:
        """What the server said about itself when the newest session was opened."""
        return self._connection.session.ack

    @property
    def server(self) -> str:
        """The server of the newest session."""
        return self._connection.session.status.server

    @property
    def service(self) -> str:
        """The service of the newest session."""
        return self._connection.session.status.service

    @property
    def image_codec(self) -> str:
        """The codec in use; empty before the first image was sent to this server."""
        return self._connection.session.codec or ""

    @property
    def node(self) -> Transport:
        """The node on the network that this policy uses; closing the policy closes its own."""
        return self._node

    @property
    def robot(self) -> RobotFeatures | None:
        """What the robot said about itself."""
        return self._robot

    @property
    def client_id(self) -> str:
        """The robot's name on the network."""
        return self._client_id

    @property
    def episode_id(self) -> int:
        """The number of the episode, as the server's audit log has it."""
        return self._episode_id

    @property
    def is_connected(self) -> bool:
        """Whether the next observation can be sent in the session, as far as is known."""
        return self._connection.state.is_usable

    def listen(self, listener: Callable[[ConnectionNotice], None]) -> None:
        """Call this with news of the connection, on the thread that calls this policy."""
        with self._guard.call() as connection:
            connection.listen(listener)

    def poll(self) -> None:
        """Read what has come of the server since the last call, without waiting.

        So a program that asks seldom, and its listener, learn that the server went away.
        """
        with self._guard.call() as connection:
            connection.poll()

    def connect(self, timeout_s: float) -> None:
        """Have a session that can be used, within this time; raises why there is none."""
        with self._guard.call() as connection:
            connection.begin_send()
            connection.ready(time.monotonic() + timeout_s)

    def give_up(self) -> None:
        """Leave a server that is there and does not answer; others are asked before it."""
        with self._guard.call() as connection:
            connection.give_up()

    def infer(
        self,
        observation: ArrayFrame,
        *,
        task: str | None = None,
        history: Sequence[ArrayFrame] = (),
        prefix_model: NDArray[Any] | None = None,
        prefix_robot: NDArray[Any] | None = None,
        inference_delay_steps: SupportsIndex = 0,
        noise_seed: SupportsIndex | None = None,
        failover: bool = True,
        timeout_s: float | None = None,
    ) -> RemoteChunk:
        """The chunk for this observation, by policy feature key: vectors, and uint8 RGB images.

        `history` holds earlier observations at control spacing, oldest first. Prefixes are what is
        left of the last chunk, as the policy made it and as the robot executes it. Without
        `failover` an observation is not sent again in another session, where it would be old: the
        call raises SessionLost. `timeout_s` is the policy's unless this call has its own.
        """
        with self._guard.call() as connection:
            timeout_s = self._timeout_s if timeout_s is None else timeout_s
            deadline_s = time.monotonic() + timeout_s
            contract = connection.session.ack.capabilities.contract
            sizes = sent_sizes(self._resize, contract)
            reader = ObservationReader(contract, self._robot, sizes)
            request = ObservationRequest(
                frame=reader.frame(observation),
                history=reader.history(history),
                rest={
                    "task": self._task if task is None else task,
                    "inference_delay_steps": whole(
                        "inference_delay_steps", inference_delay_steps, bits=63
                    ),
                    "prefix_model": prefix("prefix_model", prefix_model),
                    "prefix_robot": prefix("prefix_robot", prefix_robot),
                    "noise_seed": (
                        None if noise_seed is None else whole("noise_seed", noise_seed, bits=64)
                    ),
                },
            )
            self._warn_of_sizes(connection.session.ack, request.frame)
            exchange = Exchange(
                connection,
                request,
                seq_ids=self._seq_ids,
                episode_id=self._episode_id,
                deadline_s=deadline_s,
                timeout_s=timeout_s,
                resend_s=self._resend_s,
                image_codec=self._image_codec,
                jpeg_quality=self._jpeg_quality,
                failover=failover,
            )
            try:
                return exchange.run()
            finally:
                if exchange.round_trip_ms and exchange.sent == 1:
                    # Once it was sent again, it is unknown which sending was answered.
                    patience_s = max(_SHORTEST_RESEND_S, 3 * exchange.round_trip_ms / 1000)
                    self._resend_s = min(patience_s, timeout_s / 3)

    def _warn_of_sizes(self, ack: SessionAck, frame: SplitFrame) -> None:
        """Once per session: images that neither training nor the robot's features know. A server
        warns of those that it is told of when it opens the session."""
        if ack.session_id == self._checked_session:
            return
        self._checked_session = ack.session_id
        contract = ack.capabilities.contract
        robot = self._robot or RobotFeatures.of(contract)
        announced = announced_cameras(robot, contract, self._resize)
        for key, image in frame.images.items():
            trained = contract.cameras.get(key, image.shape)
            if image.shape not in (trained, announced.get(key)):
                _LOG.warning(
                    "%s: images are %d x %d, the policy was trained with %d x %d; resize=True "
                    "sends them in that size",
                    *(key, image.shape[1], image.shape[0], trained[1], trained[0]),
                )

    def reset(self) -> None:
        """Begin a new episode: nothing of the last one may influence what comes."""
        with self._guard.call() as connection:
            self._episode_id = (self._episode_id + 1) % 2**32
            timeout_s = min(self._timeout_s, self._connect_timeout_s)
            if not connection.reset(self._episode_id, timeout_s):
                _LOG.warning(
                    "server %s did not acknowledge episode %d; the next observation announces it",
                    self.server,
                    self._episode_id,
                )

    def close(self) -> None:
        """End the session on the server; a call in flight ends with an error."""
        self._guard.close()

    def __enter__(self) -> "RemotePolicy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_node(settings: ZenohSettings) -> Transport:
    """A node on the network: a client of one endpoint, or a peer that is connected to several."""
    try:
        return ZenohTransport.open(settings)
    except CannotOpen as error:
        raise NoServer(str(error)) from None
    except (Closed, Forked, ThreadsEnded) as error:
        raise RemoteError(str(error)) from None
