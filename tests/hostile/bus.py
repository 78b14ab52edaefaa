"""A raw Zenoh session: what a hostile program learns of a server, and how it sends.

It uses nothing of lefleet_client: keys, header and bodies are put together by hand.
"""

import json
import struct
import time
from typing import Any

import msgspec
import zenoh

HEADER = struct.Struct("<HBQIqI")
OBSERVATION = 1
EVERY_STATUS = "@lefleet/*/*/*/s/*/status"
_QUESTION_S = 1.0
_PATIENCE_S = 20.0
_OVERHEAR_S = 0.2


def pack(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


def header(seq_id: int = 0, episode_id: int = 0, session_epoch: int = 1) -> bytes:
    """A good header of an observation."""
    return HEADER.pack(1, OBSERVATION, seq_id, episode_id, 0, session_epoch)


class Bus:
    """A hostile node beside one server. `sent` and `octets` count what it sent."""

    def __init__(self, endpoint: str) -> None:
        config = zenoh.Config()
        settings = {
            "mode": "client",
            "connect/endpoints": [endpoint],
            "scouting/multicast/enabled": False,
            # As from another machine; a killed attacker would also leave its segments behind.
            "transport/shared_memory/enabled": False,
        }
        for path, value in settings.items():
            config.insert_json5(path, json.dumps(value))
        self.session = zenoh.open(config)
        self.sent = self.octets = 0
        self._kept: list[Any] = []
        (reply,) = (one.ok for one in self.session.get(EVERY_STATUS, timeout=_PATIENCE_S))
        self.base = str(reply.key_expr).removesuffix("/status")
        self.status: dict[str, Any] = msgspec.msgpack.decode(reply.payload.to_bytes())

    @property
    def contract(self) -> dict[str, Any]:
        return self.status["capabilities"]["contract"]

    def key(self, client: str, word: str) -> str:
        return f"{self.base}/c/{client}/{word}"

    def put(self, key: str, payload: bytes, attachment: bytes) -> None:
        """Publish and wait for room on the link: nothing is dropped on this side."""
        blocking = zenoh.CongestionControl.BLOCK
        self.session.put(key, payload, attachment=attachment, congestion_control=blocking)
        self._count(payload)

    def observe(self, client: str, payload: bytes, attachment: bytes = b"") -> None:
        self.put(self.key(client, "obs"), payload, attachment or header(seq_id=self.sent))

    def shoot(self, key: str, payload: bytes) -> None:
        """Ask and do not wait: replies are thrown away."""
        forget = zenoh.handlers.RingChannel(1)
        self.session.get(key, forget, payload=payload, timeout=_QUESTION_S)
        self._count(payload)

    def ask(self, key: str, payload: bytes) -> Any:
        """The first reply."""
        for one in self.session.get(key, payload=payload, timeout=_PATIENCE_S):
            if one.ok is not None:
                return msgspec.msgpack.decode(one.ok.payload.to_bytes())
        raise RuntimeError(f"no reply at {key[:200]}")

    def opening(self, client: str, **changes: object) -> dict[str, object]:
        """A session question that this server accepts."""
        capabilities = self.status["capabilities"]
        contract = self.contract
        return {
            "type": "session_open",
            "model": capabilities["model"],
            "revision": capabilities["revision"],
            "service": self.status["service"],
            "client_id": client,
            "session_epoch": 1,
            "episode_id": 0,
            "seq_id": 0,
            "action_names": contract["action_names"],
            "vectors": contract["vectors"],
            "cameras": contract["cameras"],
            "fps": contract["fps"],
            "robot_type": contract["robot_type"],
            **changes,
        }

    def open(self, client: str) -> str:
        """Open a session as a robot would, token and all; its id."""
        self.appear(client)
        deadline = time.monotonic() + _PATIENCE_S
        question = pack(self.opening(client))
        while (reply := self.ask(self.key(client, "session"), question))["type"] != "session_ack":
            if time.monotonic() > deadline:
                raise RuntimeError(f"no session for {client}: {str(reply)[:500]}")
            time.sleep(0.1)
        return reply["session_id"]

    def appear(self, client: str) -> None:
        """Declare a robot's token, until the end of this process."""
        self._kept.append(self.session.liveliness().declare_token(self.key(client, "alive")))

    def other_clients(self) -> list[str]:
        status = self.ask(
            f"{self.base}/status", pack({"type": "status_request", "with_clients": True})
        )
        return [one["client_id"] for one in status["clients"]]

    def overhear(self, client: str) -> int:
        """The session epoch in the next observation of another robot; 0 if it sends none now."""
        deadline = time.monotonic() + _OVERHEAR_S
        with self.session.declare_subscriber(self.key(client, "obs")) as subscriber:
            while time.monotonic() < deadline:
                if (sample := subscriber.try_recv()) is not None:
                    return HEADER.unpack(sample.attachment.to_bytes())[-1]
                time.sleep(0.002)
        return 0

    def _count(self, payload: bytes) -> None:
        self.sent += 1
        self.octets += len(payload)
