"""A policy server, from its start to its drain."""

import logging
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from lefleet.policy.served import ServedPolicy
from lefleet.server.board import Board
from lefleet.server.capture import CaptureRing
from lefleet.server.handshake import Terms
from lefleet.server.janitor import Janitor
from lefleet.server.manifest import Manifest
from lefleet.server.outcome import Observer
from lefleet.server.scheduler import RoundRobin
from lefleet.server.sessions import Sessions
from lefleet.server.wiring import Wiring
from lefleet.server.workers import Workers
from lefleet_client import wire
from lefleet_client.transport import Transport

_LOG = logging.getLogger(__name__)
DRAIN_TIMEOUT_S = 30.0


class PolicyService:
    """Serves one warmed-up policy on one transport; the transport stays its caller's.

    Its threads are those of `workers` and `janitor`. Whoever made it starts, drains and closes it.
    """

    def __init__(
        self,
        policy: ServedPolicy,
        manifest: Manifest,
        transport: Transport,
        observers: Sequence[Observer] = (),
        capture: CaptureRing | None = None,
    ) -> None:
        self._policy = policy
        self._terms = _terms(policy, manifest)
        self._server = manifest.server_name
        self._instance_id = secrets.token_hex(8)
        self._is_ready = False
        served = self._terms.capabilities
        keys = wire.ServiceKeys(served.model, served.revision, self._terms.service).server(
            self._server
        )
        self._board = Board(RoundRobin(), ahead=manifest.prepare_threads + 1)
        self._workers = Workers(
            self._board,
            policy,
            default_task=manifest.default_task,
            pin_task=manifest.pin_task,
            prepare_threads=manifest.prepare_threads,
            observers=observers,
            capture=capture,
        )
        self._sessions = Sessions(
            transport,
            keys,
            policy,
            self._terms,
            self._board,
            instance_id=self._instance_id,
            image_codec=manifest.image_codec,
            load=lambda: self._workers.load,
        )
        self._wiring = Wiring(
            transport, keys, self._sessions, self._board, status=self.status, seen=self._seen
        )
        self._janitor = Janitor(
            transport,
            keys,
            self._sessions,
            self._wiring.strangers,
            grace_s=manifest.grace_s,
            idle_timeout_s=manifest.session_idle_timeout_s,
        )

    def start(self) -> None:
        self._workers.start()
        self._janitor.start()
        self._wiring.declare()
        self._is_ready = True
        _LOG.info("event=ready service=%s server=%s", self._terms.service, self._server)

    def drain(self, timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Answer what has arrived, take nothing new, close all sessions."""
        _LOG.info("event=draining sessions=%d", len(self._sessions))
        self._sessions.refuse_new()
        for session in self._sessions.snapshot().values():
            session.tell(wire.Draining())
        self._wiring.withdraw()
        if not self._board.wait_idle(timeout_s):
            _LOG.warning("event=drain_timed_out after_s=%g", timeout_s)
        self._wiring.undeclare()
        self._sessions.close_all("the server stopped")
        _LOG.info("event=drained")

    def close(self) -> None:
        """Stop at once, or after `drain`."""
        self._sessions.refuse_new()
        self._board.close()
        self._wiring.undeclare()
        self._janitor.stop()
        self._sessions.close_all("the server stopped")
        self._workers.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_ready(self) -> bool:
        return self._is_ready and not self.is_draining

    @property
    def is_draining(self) -> bool:
        return self._sessions.is_draining

    @property
    def load(self) -> float:
        return self._workers.load

    @property
    def session_count(self) -> int:
        return len(self._sessions)

    @property
    def dropped(self) -> dict[str, int]:
        """Messages that nothing was done with, by reason."""
        return self._wiring.dropped

    @property
    def probes(self) -> dict[str, int]:
        """Answered probes by image codec."""
        return dict(self._workers.probes)

    def status(self, *, with_clients: bool = False) -> wire.ServerStatus:
        sessions = self._sessions.snapshot().values()
        return wire.ServerStatus(
            service=self._terms.service,
            server=self._server,
            instance_id=self._instance_id,
            capabilities=self._terms.capabilities,
            draining=self.is_draining,
            sessions=len(sessions),
            max_sessions=self._terms.max_sessions,
            load=self.load,
            clients=tuple(session.status() for session in sessions) if with_clients else (),
        )

    def _seen(self, place: str, is_alive: bool) -> None:
        self._janitor.seen(place, is_alive)


def _terms(policy: ServedPolicy, manifest: Manifest) -> Terms:
    exclusive = policy.mode == "exclusive"
    return Terms(
        capabilities=_capabilities(policy, manifest),
        service=manifest.service_name,
        fps=manifest.trained_fps or policy.contract.fps,
        strict_fps=manifest.strict_fps,
        default_task=manifest.default_task,
        pin_task=manifest.pin_task,
        mode_reason=policy.mode_reason,
        max_sessions=1 if exclusive else manifest.max_sessions,
        warnings=policy.warnings,
    )


def _capabilities(policy: ServedPolicy, manifest: Manifest) -> wire.Capabilities:
    return wire.Capabilities(
        model=manifest.model_name,
        revision=_revision(policy, manifest),
        digest=policy.digest,
        contract=policy.contract,
        chunk_size=policy.chunk_size,
        n_action_steps=policy.n_action_steps,
        n_obs_steps=policy.n_obs_steps,
        supports_rtc=policy.supports_rtc,
        rtc_horizon=policy.rtc_horizon,
        serving_mode=policy.mode,
    )


def _revision(policy: ServedPolicy, manifest: Manifest) -> str:
    """A folder has no revision of its own, so its content names it: what differs is no replica."""
    is_folder = Path(manifest.model.repo_or_path).expanduser().is_dir()
    return policy.digest[:12] if is_folder else manifest.model.revision
