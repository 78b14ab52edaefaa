"""A policy that runs elsewhere: observations in, chunks out."""

import itertools
import logging
import os
import secrets
import socket
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from numpy.typing import NDArray

from lefleet_client.remote.chunk import RemoteChunk
from lefleet_client.remote.connection import Connection, open_node
from lefleet_client.remote.door import Door
from lefleet_client.remote.encoding import ArrayFrame, Request, prefix, split, split_all, whole
from lefleet_client.remote.errors import RemoteError, TimedOut
from lefleet_client.remote.exchange import Exchange
from lefleet_client.remote.features import RobotFeatures
from lefleet_client.remote.link import Arrived, Link
from lefleet_client.remote.opening import Opener, Wanted
from lefleet_client.remote.probe import choose_codec
from lefleet_client.remote.resize import Sizes, require_resizing
from lefleet_client.transport import Tls, Transport, TransportError
from lefleet_client.transport.ending import ENDING
from lefleet_client.wire import CodecChoice, SessionAck

_LOG = logging.getLogger(__name__)

_SHORTEST_RESEND_S = 0.5
_FIRST_RESEND_S = 1.0


class RemotePolicy:
    """Asks a policy server for chunks, and finds another one when that goes away.

    with RemotePolicy("tcp/10.0.0.5:7447", "fold", robot=features) as policy:
        chunk = policy.infer({"observation.state": state, "observation.images.top": rgb})

    One endpoint is a router or a server; with several, this node connects to each of them, so that
    replicas need no router. Without `robot` the server's order of columns is taken as it is: a
    robot whose motors are in another order then moves wrongly, and nobody notices.

    `resize` is off, True for the sizes of the contract's cameras, or sizes (height, width) by key.

    A call takes `timeout_s` at most; making one takes `connect_timeout_s` more, for the network.

    One caller at a time: a second thread gets an error at once. `close` may be called from any
    thread, and from a signal handler. Callbacks of the transport only fill an inbox. One that is
    forgotten, or still open when the program ends, is closed by a thread of `transport.ending`.
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
        tls: Tls | None = None,
        zenoh_extra: Mapping[str, Any] | None = None,
        transport: Transport | None = None,
    ) -> None:
        if not 1 <= jpeg_quality <= 100:
            raise ValueError(f"jpeg_quality: {jpeg_quality} is not 1 to 100")
        if resize:
            require_resizing()
        endpoints = (connect,) if isinstance(connect, str) else tuple(connect)
        if not endpoints:
            raise ValueError("connect: at least one endpoint is needed, such as tcp/10.0.0.5:7447")
        self._task = task
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._image_codec: CodecChoice = image_codec
        self._jpeg_quality = jpeg_quality
        self._resize = resize
        self._seqs = itertools.count()
        self._episode_id = 0
        self._resend_s = _FIRST_RESEND_S
        owned: tuple[Transport, ...] = ()
        if transport is None:
            transport = open_node(endpoints, tls, connect_timeout_s, dict(zenoh_extra or {}))
            owned = (transport,)
        wanted = Wanted(
            service=service,
            model=model,
            revision=revision,
            pin_digest=pin_digest,
            client_id=client_id or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}",
            robot=robot,
            task=task,
            wants_rtc=wants_rtc,
            image_codec=image_codec,
            tags=dict(tags or {}),
        )
        opener = Opener(
            transport, wanted, places=", ".join(endpoints), ask_timeout_s=connect_timeout_s
        )
        try:
            self._connection = Connection(opener, time.monotonic() + timeout_s, owned)
        except BaseException as error:
            for one in owned:
                one.close()
            if isinstance(error, TransportError):
                raise RemoteError(str(error)) from None
            raise
        self._door = Door(self._connection)
        weakref.finalize(self, ENDING.soon, self._door.close).atexit = False

    @property
    def ack(self) -> SessionAck:
        """What the server said about itself when the newest session was opened."""
        return self._connection.ack

    @property
    def server(self) -> str:
        """The server of the newest session."""
        return self._connection.link.server

    @property
    def image_codec(self) -> str:
        """The codec in use; empty before the first image was sent to this server."""
        return self._connection.link.codec or ""

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
    ) -> RemoteChunk:
        """The chunk for this observation, by policy feature key: vectors, and uint8 RGB images.

        `history` holds earlier observations at control spacing, oldest first. Prefixes are what is
        left of the last chunk, as the policy made it and as the robot executes it.
        """
        with self._door.caller():
            deadline_s = time.monotonic() + self._timeout_s
            sizes = self._sizes()
            request = Request(
                frame=split(observation, sizes),
                history=split_all(history, sizes),
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
            return self._ask(request, deadline_s)

    def reset(self) -> None:
        """Begin a new episode: nothing of the last one may influence what comes."""
        with self._door.caller():
            self._episode_id = (self._episode_id + 1) % 2**32
            link = self._connection.link
            link.catch_up()
            timeout_s = min(self._timeout_s, self._connect_timeout_s)
            if link.is_usable and not link.reset(self._episode_id, timeout_s):
                _LOG.warning(
                    "server %s did not acknowledge episode %d; the next observation announces it",
                    link.server,
                    self._episode_id,
                )

    def close(self) -> None:
        """Give the place on the server back; a call that is under way ends with an error."""
        self._door.close()

    def __enter__(self) -> "RemotePolicy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: Request, deadline_s: float) -> RemoteChunk:
        exchange: Exchange | None = None
        while time.monotonic() < deadline_s:
            link = self._connection.usable(deadline_s)
            quality = self._quality(link, request, deadline_s)
            if quality is None:
                continue
            began_s = time.monotonic()
            body = request.encode(quality)
            encode_ms = (time.monotonic() - began_s) * 1000
            # Its number is above those of the probes: a server prefers what is newer.
            exchange = exchange or Exchange(
                self._seqs, self._episode_id, deadline_s, self._resend_s
            )
            answer = self._answer(exchange, link, body)
            if answer is not None:
                return RemoteChunk.of(
                    answer.chunk,
                    encode_ms=encode_ms,
                    round_trip_ms=exchange.round_trip_ms,
                    server=link.server,
                    digest=answer.chunk.digest,
                )
        raise self._timed_out(exchange.sent if exchange else 0)

    def _answer(self, exchange: Exchange, link: Link, body: bytes) -> Arrived | None:
        try:
            answer = exchange.ask(link, body)
        finally:
            if exchange.round_trip_ms and exchange.sent == 1:
                # Of what was sent again nobody knows which sending was answered.
                patience_s = max(_SHORTEST_RESEND_S, 3 * exchange.round_trip_ms / 1000)
                self._resend_s = min(patience_s, self._timeout_s / 3)
        self._connection.require_open()
        if answer is not None:
            columns = answer.chunk.chunk_robot.shape[1]
            names = self._connection.ack.capabilities.contract.action_names
            if columns != len(names):
                raise RemoteError(
                    f"server {link.server} is faulty: its chunk has {columns} columns, and its "
                    f"contract {len(names)}: {', '.join(names)}"
                )
        return answer

    def _timed_out(self, sent: int) -> TimedOut:
        link = self._connection.link
        where = f"no chunk from server {link.server} within {self._timeout_s:g} s"
        if not sent:
            return TimedOut(
                f"{where}: opening a session, choosing the image codec and encoding took the time, "
                "and nothing was sent; raise timeout_s, or set image_codec to jpeg"
            )
        return TimedOut(
            f"{where}; the observation was sent {sent} times and the server {link.state}. Is it "
            "overloaded, or the network too slow for these images? A longer timeout_s may help"
        )

    def _quality(self, link: Link, request: Request, deadline_s: float) -> int | None:
        """How images are encoded for this link: 0 is raw. None when the link was lost."""
        if not request.frame.images:
            return 0
        if link.codec is None:
            ours, theirs = self._image_codec, self._connection.ack.image_codec
            choice = ours if theirs == "auto" else theirs
            now_s = time.monotonic()
            link.codec = (
                choose_codec(
                    link,
                    request,
                    seqs=self._seqs,
                    episode_id=self._episode_id,
                    quality=self._jpeg_quality,
                    # The other half is for the observation itself.
                    until_s=now_s + (deadline_s - now_s) / 2,
                )
                if choice == "auto"
                else choice
            )
        if link.codec is None:
            return None
        return 0 if link.codec == "raw" else self._jpeg_quality

    def _sizes(self) -> Sizes:
        if isinstance(self._resize, Mapping):
            return self._resize
        cameras = self._connection.ack.capabilities.contract.cameras if self._resize else {}
        return {key: (height, width) for key, (height, width, _) in cameras.items()}
