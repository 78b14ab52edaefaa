"""A policy server, from its start to its drain."""

import logging
from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from lefleet.policy.served import ServedPolicy
from lefleet.server.capture import CaptureRing
from lefleet.server.endpoints import Endpoints
from lefleet.server.handshake import HandshakeRules
from lefleet.server.instances import (
    InstanceWatch,
    name_taken,
    new_instance_id,
    require_free_name,
)
from lefleet.server.manifest import Manifest
from lefleet.server.observers import Observer
from lefleet.server.reaper import SessionReaper
from lefleet.server.request_queue import RequestQueue
from lefleet.server.sessions import Sessions
from lefleet.server.workers import Workers
from lefleet_client import wire
from lefleet_client.transport import Transport

_LOG = logging.getLogger(__name__)
DRAIN_TIMEOUT_S = 30.0


class PolicyService:
    """Serves one warmed-up policy on one transport; the transport stays its caller's.

    Its threads are those of `workers`, `reaper` and `instances`. The caller starts, drains and
    closes it. Where an earlier server runs under its name, it accepts no more robots and calls
    `on_name_taken`, on the thread `instances`; the caller then drains it, and `require_own_name`
    raises.
    """

    def __init__(
        self,
        policy: ServedPolicy,
        manifest: Manifest,
        transport: Transport,
        observers: Sequence[Observer] = (),
        capture: CaptureRing | None = None,
        *,
        on_name_taken: Callable[[], None] = lambda: None,
    ) -> None:
        self._rules = _rules(policy, manifest)
        self._server = manifest.server_name
        self._instance_id = new_instance_id()
        self._transport = transport
        self._lease_s = manifest.lease_s
        self._insecure = manifest.zenoh.is_insecure
        self._on_name_taken = on_name_taken
        self._is_ready = False
        self._winner = ""
        served = self._rules.capabilities
        service = wire.ServiceKeys(served.model, served.revision, self._rules.service)
        self._keys = service.server(self._server)
        self._name_keys = wire.matching_servers(service=self._rules.service, server=self._server)
        self._requests = RequestQueue(ahead=manifest.prepare_threads + 1)
        self._workers = Workers(
            self._requests,
            policy,
            default_task=manifest.default_task,
            pin_task=manifest.pin_task,
            prepare_threads=manifest.prepare_threads,
            observers=observers,
            capture=capture,
        )
        self._sessions = Sessions(
            transport,
            self._keys,
            self._rules,
            self._requests,
            new_pipeline=policy.new_pipeline,
            instance_id=self._instance_id,
            image_codec=manifest.image_codec,
            load=lambda: self._workers.load,
            first_request_s=manifest.first_request_s,
            insecure=manifest.zenoh.is_insecure,
        )
        self._reaper = SessionReaper(
            transport,
            self._keys,
            self._sessions,
            grace_s=manifest.grace_s,
            idle_timeout_s=manifest.session_idle_timeout_s,
        )
        self._endpoints = Endpoints(
            transport, self._keys, self._sessions, self._requests, self._reaper, status=self.status
        )
        self._instances = InstanceWatch(
            transport, self._name_keys, self._instance_id, self._give_way
        )

    def start(self) -> None:
        """Serve from here on; BadInput where another server has this name."""
        require_free_name(self._transport, self._name_keys, self._lease_s)
        try:
            self._workers.start()
            self._reaper.start()
            self._endpoints.declare()
            self._instances.start()
        except BaseException:
            self.close()
            raise
        self._is_ready = True
        _LOG.info(
            "event=ready service=%s server=%s instance=%s",
            self._rules.service,
            self._server,
            self._instance_id,
        )

    def drain(self, timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Answer what has arrived, take nothing new, close all sessions."""
        self._sessions.refuse_new()
        _LOG.info("event=draining sessions=%d", len(self._sessions))
        for session in self._sessions.snapshot().values():
            session.send_event(wire.Draining())
        self._endpoints.withdraw()
        if not self._requests.wait_idle(timeout_s):
            _LOG.warning("event=drain_timed_out after_s=%g", timeout_s)
        self._endpoints.close()
        self._sessions.close_all("the server stopped")
        _LOG.info("event=drained")

    def close(self) -> None:
        """Stop at once, or after `drain`."""
        self._sessions.refuse_new()
        self._endpoints.close()
        self._requests.close()
        self._instances.stop()
        self._reaper.stop()
        self._sessions.close_all("the server stopped")
        self._workers.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def require_own_name(self) -> None:
        """Raise BadInput if the server had to stop because another one runs under its name."""
        if self._winner:
            raise name_taken(self._server, self._winner)

    @property
    def is_ready(self) -> bool:
        return self._is_ready and not self.is_draining

    @property
    def is_draining(self) -> bool:
        return self._sessions.is_draining

    @property
    def dropped(self) -> dict[str, int]:
        """Messages that were dropped, by reason."""
        return self._endpoints.dropped.snapshot()

    @property
    def probes(self) -> dict[str, int]:
        """Answered probes by image codec."""
        return self._workers.probes.snapshot()

    @property
    def other_instances(self) -> int:
        """Other servers that were seen under this server's name."""
        return self._instances.seen

    def status(self, *, with_clients: bool = False) -> wire.ServerStatus:
        sessions = self._sessions.snapshot().values()
        return wire.ServerStatus(
            service=self._rules.service,
            server=self._server,
            instance_id=self._instance_id,
            capabilities=self._rules.capabilities,
            draining=self.is_draining,
            sessions=len(sessions),
            max_sessions=self._rules.max_sessions,
            load=self._workers.load,
            clients=tuple(session.status() for session in sessions) if with_clients else (),
            insecure=self._insecure,
        )

    def _give_way(self, winner: wire.ServerStatus) -> None:
        if not self.is_draining:
            self._winner = winner.instance_id
            self._sessions.refuse_new()
            self._on_name_taken()


def _rules(policy: ServedPolicy, manifest: Manifest) -> HandshakeRules:
    return HandshakeRules(
        capabilities=msgspec.structs.replace(policy.capabilities, model=manifest.model_name),
        service=manifest.service_name,
        fps=manifest.trained_fps or policy.contract.fps,
        strict_fps=manifest.strict_fps,
        default_task=manifest.default_task,
        pin_task=manifest.pin_task,
        mode_reason=policy.mode_reason,
        max_sessions=1 if policy.is_exclusive else manifest.max_sessions,
        warnings=policy.warnings,
    )
