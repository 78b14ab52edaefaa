"""A server behind a router, with a robot that behaves and a node for what attacks it."""

import msgspec
import numpy as np

from lefleet_client import wire
from lefleet_client.remote import RemotePolicy
from lefleet_client.transport import OBSERVATION, ZenohSettings, ZenohTransport
from tests.client.transport.networks import FREE_PORT, Router
from tests.server.samples import session_open
from tests.server.serving import Outcomes, keys_of, observation, serving

GOOD_HEADER = wire.Header(wire.MessageType.OBSERVATION, 0, 0, 0)


class Scene:
    """A server behind a router, a robot that behaves, and a node for everything else."""

    def __init__(self, checkpoint, policy, **settings):
        self.router = Router(FREE_PORT)
        self.outcomes = Outcomes()
        self._nodes = [self._node() for _ in range(2)]
        settings["observers"] = [self.outcomes]
        self._serving = serving(checkpoint, policy, self._nodes[0], **settings)
        self.service = self._serving.__enter__()
        self.robot = RemotePolicy(
            self.router.endpoint, "test", client_id="honest", timeout_s=30, image_codec="raw"
        )
        self.policy = policy
        self.expected = self.ask()

    def _node(self):
        return ZenohTransport.open(ZenohSettings(connect=(self.router.endpoint,)))

    def ask(self) -> np.ndarray:
        return self.robot.infer(observation(self.policy, 0), noise_seed=0).robot

    def keys(self, client: str) -> wire.ClientKeys:
        return keys_of(self.service.status()).client(client)

    def publisher_of(self, client: str):
        return self._nodes[1].publisher(self.keys(client).obs, OBSERVATION)

    def as_honest(self, seq_id: int, episode_id: int = 0) -> bytes:
        """A header that passes for the honest robot's."""
        epoch = self.robot.ack.session_epoch
        header = GOOD_HEADER._replace(seq_id=seq_id, episode_id=episode_id, session_epoch=epoch)
        return header.pack()

    def open_by_hand(self, client_id: str, **changes) -> wire.SessionReply | None:
        """The reply to opening a session for a robot that fits; None without any."""
        served, contract = self.robot.ack.capabilities, self.policy.contract
        asked = session_open(
            model=served.model,
            revision=served.revision,
            service="test",
            client_id=client_id,
            action_names=contract.action_names,
            vectors=contract.vectors,
            cameras=contract.cameras,
        )
        fields = msgspec.msgpack.encode({**msgspec.to_builtins(asked), **changes})
        replies = self._nodes[1].ask(self.keys(client_id).session, fields, 5.0).replies
        return wire.SESSION_REPLY.decode(replies[0].payload) if replies else None

    def announce(self, client_id: str):
        return self._nodes[1].announce(self.keys(client_id).alive)

    def close(self):
        self.robot.close()
        self._serving.__exit__(None, None, None)
        for node in self._nodes:
            node.close()
        self.router.close()
