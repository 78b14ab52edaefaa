"""Real servers for tests: a tiny checkpoint, loaded and warmed up, on a network of choice."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lefleet.cli.serve import load_served
from lefleet.policy.served import ServedPolicy
from lefleet.server.manifest import Manifest, load_manifest
from lefleet.server.observers import RequestOutcome
from lefleet.server.service import PolicyService
from lefleet_client import wire
from lefleet_client.remote import RemotePolicy
from lefleet_client.testing import MemoryNetwork, MemoryTransport
from lefleet_client.transport import OBSERVATION, Sample, Transport
from tests.client.transport.waiting import eventually
from tests.server.samples import session_open


def loaded(folder: Path, **settings: Any) -> ServedPolicy:
    return load_served(manifest_of(folder, **settings))


def manifest_of(folder: Path, **settings: Any) -> Manifest:
    overrides = [f"--{key.replace('__', '.')}={value}" for key, value in settings.items()]
    return load_manifest(None, [f"--model.repo_or_path={folder}", *overrides])


@contextmanager
def serving(
    folder: Path, policy: ServedPolicy, transport: Transport, **settings: Any
) -> Iterator[PolicyService]:
    """A running server of `policy` on `transport`."""
    observers = settings.pop("observers", ())
    capture = settings.pop("capture", None)
    on_name_taken = settings.pop("on_name_taken", lambda: None)
    manifest = manifest_of(folder, service_name="test", **settings)
    with PolicyService(
        policy, manifest, transport, observers, capture, on_name_taken=on_name_taken
    ) as service:
        yield service


@dataclass
class Bench:
    """A server and its robots in one process, without sockets."""

    folder: Path
    policy: Any
    settings: dict[str, Any] = field(default_factory=dict)

    def __enter__(self) -> "Bench":
        self.network = MemoryNetwork()
        self._nodes = [MemoryTransport(self.network)]
        self._serving = serving(self.folder, self.policy, self._nodes[0], **self.settings)
        self.service = self._serving.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._serving.__exit__(*error)
        for node in reversed(self._nodes):
            node.close()

    def node(self) -> MemoryTransport:
        node = MemoryTransport(self.network)
        self._nodes.append(node)
        return node

    def node_of_server(self) -> MemoryTransport:
        return self._nodes[0]

    def node_of_last_robot(self) -> MemoryTransport:
        return self._nodes[-1]

    def keys(self, client: str) -> wire.ClientKeys:
        return keys_of(self.service.status()).client(client)

    def opening(self, **changes: Any) -> wire.SessionOpen:
        """What a robot that fits asks for, by hand."""
        status, contract = self.service.status(), self.policy.contract
        return session_open(
            model=status.capabilities.model,
            revision=status.capabilities.revision,
            service=status.service,
            action_names=contract.action_names,
            vectors=contract.vectors,
            cameras={},
            **changes,
        )

    def session_ids(self) -> list[str]:
        return [session.id for session in self.service._sessions.snapshot().values()]

    def listen(self, client: str) -> list[Sample]:
        """Everything that the server says to this robot from now on."""
        heard: list[Sample] = []
        self.node().subscribe(self.keys(client).action, heard.append)
        return heard

    def deliver(self) -> None:
        """Return when everything that was published to the server before has been delivered.

        Observations arrive in order, so one without a session that is counted came last.
        """
        publisher = self.node().publisher(self.keys("unknown").obs, OBSERVATION)
        before = self.service.dropped.get("no_session", 0)
        publisher.put(b"", wire.Header(wire.MessageType.OBSERVATION, 0, 0, 0).pack())
        eventually(lambda: self.service.dropped.get("no_session", 0) > before)

    def robot(self, name: str, **options: Any) -> RemotePolicy:
        options.setdefault("image_codec", "raw")
        return RemotePolicy(
            "memory", "test", client_id=name, transport=self.node(), timeout_s=30.0, **options
        )


def keys_of(status: wire.ServerStatus) -> wire.ServerKeys:
    served = status.capabilities
    return wire.ServiceKeys(served.model, served.revision, status.service).server(status.server)


class Outcomes(list[RequestOutcome]):
    """Every outcome, in order; one condition guards the waiting."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._then: Callable[[int], object] = lambda _: None

    def finished(self, outcome: RequestOutcome) -> None:
        with self._changed:
            self.append(outcome)
            self._changed.notify_all()
        self._then(len(self))

    def each(self, then: Callable[[int], object]) -> None:
        """From now on call this after every outcome, with the number of outcomes."""
        self._then = then

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self) >= count, 20), f"only {len(self)}"


class Gated:
    """A policy that answers when it is let, so that a test decides what happens meanwhile."""

    def __init__(self, policy: ServedPolicy) -> None:
        self._policy = policy
        self.has_begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)

    def predict(self, prepared: Any) -> Any:
        self.has_begun.release()
        assert self.may_end.acquire(timeout=20)
        return self._policy.predict(prepared)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)


def observation(policy: ServedPolicy, seed: int) -> dict[str, np.ndarray]:
    """Something that a robot of this contract could see."""
    draw = np.random.default_rng(seed)
    contract = policy.contract
    vectors = {
        key: draw.normal(size=len(names)).astype(np.float32)
        for key, names in contract.vectors.items()
    }
    images = {
        key: draw.integers(0, 256, shape, dtype=np.uint8) for key, shape in contract.cameras.items()
    }
    return vectors | images
