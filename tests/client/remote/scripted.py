"""A server that speaks the real wire and does what a test tells it, without a policy."""

import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from lefleet_client import wire
from lefleet_client.transport import ACTION, Publisher, Question, Sample, Transport
from tests.client.transport.waiting import Log

STATE, TOP = "observation.state", "observation.images.top"
CONTRACT = wire.Contract(
    action_names=("shoulder.pos", "gripper.pos"),
    vectors={STATE: ("shoulder.pos", "gripper.pos", "wrist.pos")},
    cameras={TOP: (24, 32, 3)},
    fps=30.0,
    policy_type="act",
    robot_type="so101",
)
STEPS = 4


def capabilities(model: str = "lerobot/act", digest: str = "d1") -> wire.Capabilities:
    return wire.Capabilities(
        model=model,
        revision="main",
        digest=digest,
        contract=CONTRACT,
        chunk_size=STEPS,
        n_action_steps=STEPS,
        n_obs_steps=1,
        supports_rtc=False,
        rtc_horizon=0,
        serving_mode="shared",
    )


def server_status(server: str, *, digest: str = "d1", **fields) -> wire.ServerStatus:
    usual = {
        "service": "fold",
        "instance_id": f"{server}-1",
        "capabilities": capabilities(digest=digest),
        "draining": False,
        "sessions": 0,
        "max_sessions": 8,
        "load": 0.0,
    }
    return wire.ServerStatus(server=server, **{**usual, **fields})


def acknowledgement(server: str, session_epoch: int, **fields) -> wire.SessionAck:
    usual = {
        "session_id": f"{server}-{session_epoch}",
        "schema_version": 1,
        "instance_id": f"{server}-1",
        "capabilities": capabilities(),
        "image_codec": "auto",
        "load": 0.0,
    }
    return wire.SessionAck(session_epoch=session_epoch, **{**usual, **fields})


@dataclass(frozen=True)
class ServerRequest:
    """An observation as it came, with the means to answer it."""

    server: "ScriptedServer"
    client: str
    header: wire.Header
    body: wire.Observation

    @property
    def state(self) -> np.ndarray:
        return wire.decode_tensor(self.body.vectors[STATE])

    def chunk(self, **changes) -> None:
        """The state's sum in each element, the double of it for the robot."""
        actions = np.full((STEPS, 2), self.state.sum(), np.float32)
        fields = {
            "chunk_model": wire.encode_tensor(actions),
            "chunk_robot": wire.encode_tensor(actions * 2),
            "seq_id": self.header.seq_id,
            "episode_id": self.header.episode_id,
            "client_mono_ns": self.header.client_mono_ns,
            "digest": self.server.capabilities.digest,
            "queue_wait_ms": 0.25,
            "prepare_ms": 0.5,
            "inference_ms": 1.0,
            "load": 0.5,
        }
        chunk = wire.ActionChunk(**{**fields, **changes})
        self.say(wire.MessageType.CHUNK, wire.CHUNK.encode(chunk))

    def event(self, event: wire.Event) -> None:
        self.say(wire.MessageType.EVENT, wire.EVENT.encode(event))

    def probed(self) -> None:
        for image in self.body.images.values():
            wire.decode_image(image)
        self.event(wire.Probed(seq_id=self.header.seq_id, decode_ms=0.1))

    def say(self, kind: wire.MessageType, body: bytes) -> None:
        header = self.header._replace(message_type=kind)
        self.server.say(self.client, body, header)


def answer(request: ServerRequest) -> None:
    """What a server without a script does."""
    if request.body.probe:
        request.probed()
    else:
        request.chunk()


class ScriptedServer:
    """Answers on the transport's threads; `act` is called for each observation of a session.

    What came is in the logs `opens`, `closes`, `resets` and `observations`; observations without a
    session are in `sessionless`.
    """

    def __init__(
        self,
        transport: Transport,
        name: str = "a",
        *,
        act: Callable[[ServerRequest], None] = answer,
        rejection: wire.SessionRejected | None = None,
        service: str = "fold",
        model: str = "lerobot/act",
        digest: str = "d1",
        load: float = 0.0,
        draining: bool = False,
        image_codec: wire.CodecChoice = "auto",
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.act = act
        self.rejection = rejection
        self.draining = draining
        self.opens, self.closes, self.resets, self.observations = Log(), Log(), Log(), Log()
        self.sessionless = Log()
        self._transport = transport
        self._service, self._load = service, load
        self.capabilities = capabilities(model, digest)
        self.instance_id = f"{name}-1"
        self._image_codec, self._warnings = image_codec, warnings
        self._epochs: dict[str, int] = {}
        self._publishers: dict[str, Publisher] = {}
        self._keys = wire.ServiceKeys(model, "main", service).server(name)
        every = self._keys.any_client
        self._declared = [
            transport.subscribe(every.obs, self._hear),
            transport.serve(every.reset, self._reset),
            transport.serve(every.session, self._session),
            transport.serve(self._keys.status, lambda _: wire.STATUS.encode(self._status())),
        ]
        self.token = transport.announce(self._keys.alive)

    def close(self) -> None:
        """Go away, as a killed process does."""
        for one in (self.token, *self._declared):
            one.close()

    def forget(self) -> None:
        """Know no session any more."""
        self._epochs.clear()

    def client_alive(self, client: str) -> bool:
        return bool(self._transport.present(self._keys.client(client).alive, 1.0))

    def tell(self, client: str, event: wire.Event) -> None:
        """Send an event on the server's own account."""
        epoch = self._epochs[client]
        header = wire.Header(wire.MessageType.EVENT, 0, 0, 0, epoch)
        self.say(client, wire.EVENT.encode(event), header)

    def say(self, client: str, body: bytes, header: wire.Header) -> None:
        if client not in self._publishers:
            key = self._keys.client(client).action
            self._publishers[client] = self._transport.publisher(key, ACTION)
        self._publishers[client].put(body, header.pack())

    def _hear(self, sample: Sample) -> None:
        header = wire.Header.unpack(sample.attachment)
        client = wire.parse_key(sample.key).client
        request = ServerRequest(self, client, header, wire.OBSERVATION.decode(sample.payload))
        if self._epochs.get(client) != header.session_epoch:
            self.sessionless.add(request)
            request.event(wire.SessionClosed(reason="there is no session; open one"))
            return
        self.observations.add(request)
        self.act(request)

    def _session(self, question: Question) -> bytes:
        request = wire.SESSION_REQUEST.decode(question.payload)
        if isinstance(request, wire.SessionClose):
            self._epochs.pop(wire.slug(request.client_id, "client"), None)
            self.closes.add(request)
            return wire.SESSION_REPLY.encode(wire.SessionCloseAck(session_id=request.session_id))
        self.opens.add(request)
        return wire.SESSION_REPLY.encode(self.rejection or self._ack(request))

    def _ack(self, request: wire.SessionOpen) -> wire.SessionAck:
        client = wire.slug(request.client_id, "client")
        if client in self._epochs:
            self.tell(client, wire.SessionClosed(reason="replaced by a newer session"))
        self._epochs[client] = request.session_epoch
        return acknowledgement(
            self.name,
            request.session_epoch,
            instance_id=self.instance_id,
            capabilities=self.capabilities,
            image_codec=self._image_codec,
            load=self._load,
            warnings=self._warnings,
        )

    def _reset(self, question: Question) -> bytes:
        reset = wire.RESET.decode(question.payload)
        self.resets.add(reset)
        return wire.RESET_REPLY.encode(
            wire.ResetAck(session_id=reset.session_id, episode_id=reset.episode_id)
        )

    def _status(self) -> wire.ServerStatus:
        return server_status(
            self.name,
            service=self._service,
            instance_id=self.instance_id,
            capabilities=self.capabilities,
            draining=self.draining,
            load=self._load,
        )


def observation(value: float = 1.0, *, image: bool = False) -> dict[str, np.ndarray]:
    """What fits the contract; its chunk is three times `value`."""
    found: dict[str, np.ndarray] = {STATE: np.full(3, value, np.float32)}
    if image:
        rng = np.random.default_rng(0)
        found[TOP] = rng.integers(0, 255, (24, 32, 3), np.uint8)
    return found


class Once:
    """True the first time."""

    def __init__(self) -> None:
        self._first = threading.Lock()

    def __bool__(self) -> bool:
        return self._first.acquire(blocking=False)


def keep_asking(policy) -> None:
    """Ask until the news that a server sent on its own has arrived."""
    for _ in range(200):
        policy.infer(observation())


def impatient(policy):
    """The policy, which now sends an unanswered observation again soon."""
    policy._resend_s = 0.3
    return policy


@contextmanager
def hurried(policy, timeout_s: float):
    """Calls that are meant to fail do so soon; those around them have all the time."""
    patience, policy._timeout_s = policy._timeout_s, timeout_s
    yield
    policy._timeout_s = patience
