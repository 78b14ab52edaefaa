"""serve: a checkpoint for many robots, until somebody asks to stop."""

import json
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lefleet.cli.checkpoints import checkpoint_named, newest_blessed
from lefleet.cli.loading import load_served
from lefleet.cli.logs import log_to_stderr
from lefleet.cli.output import print_json, print_json_line
from lefleet.cli.serving import Serve
from lefleet.cli.signals import StoppedEarly, StopSignals
from lefleet.errors import BadInput
from lefleet.server.audit import open_audit
from lefleet.server.capacity import plan_text, robots
from lefleet.server.capture import CapturedModel, CaptureRing
from lefleet.server.health import HealthServer
from lefleet.server.manifest import Manifest, load_manifest
from lefleet.server.metrics import Metrics
from lefleet.server.outcome import Observer
from lefleet_client.transport import ZenohTransport

_LOG = logging.getLogger(__name__)


def serve_command(command: Serve, overrides: Sequence[str]) -> int:
    """Everything that can be wrong without the policy is found out before it is loaded."""
    manifest = _manifest(command, overrides)
    if command.plan:
        return _plan(command, manifest)
    log_to_stderr()
    try:
        with StopSignals() as signals, ExitStack() as stack:
            _serve(manifest, signals, stack, as_json=command.json)
    except StoppedEarly:
        _LOG.info("event=stopped_before_ready")
    return 0


def _manifest(command: Serve, overrides: Sequence[str]) -> Manifest:
    if not command.run:
        return load_manifest(command.manifest, overrides)
    if "/" in command.run or Path(command.run).is_dir():
        raise BadInput(
            f"run: {command.run} is no run but a path or hub id.",
            f"Serve it with --model.repo_or_path={command.run}",
        )
    workdir = command.workdir.expanduser().resolve()
    run, colon, which = command.run.partition(":")
    if command.run == "blessed":
        run = newest_blessed(workdir, "run")
    folder = checkpoint_named(f"{run}:{which if colon else 'blessed'}", workdir, "run")
    # JSON is YAML, whatever is in the path.
    chosen = (f"--model.repo_or_path={json.dumps(folder)}", f"--model_name={json.dumps(run)}")
    manifest = load_manifest(command.manifest, (*chosen, *overrides))
    if (other := manifest.model.repo_or_path) != folder:
        raise BadInput(
            f"model.repo_or_path: {other} is another checkpoint than that of run {command.run}, "
            f"which is {folder}.",
            "Name one of them.",
        )
    return manifest


@dataclass
class _Surroundings:
    """Who hears of requests, and who can be asked how the server is."""

    metrics: Metrics = field(default_factory=Metrics)
    observers: list[Observer] = field(default_factory=list)
    skipped: dict[str, Callable[[], int]] = field(default_factory=dict)
    ring: CaptureRing | None = None
    health: str = ""
    """Where it is asked for."""
    why_not_ready: str = "warming up"


def _surround(manifest: Manifest, stack: ExitStack) -> _Surroundings:
    around = _Surroundings()
    around.observers.append(around.metrics)
    if (audit := open_audit(manifest.audit)) is not None:
        stack.callback(audit.close)
        around.observers.append(audit)
        around.skipped["audit"] = lambda: audit.skipped
    if manifest.capture is not None:
        ring = CaptureRing(manifest.capture, CapturedModel.of(manifest))
        stack.callback(ring.close)
        around.ring = ring
        around.skipped["capture"] = lambda: ring.skipped
    if manifest.http_port:
        health = HealthServer(
            manifest.http_host,
            manifest.http_port,
            lambda: around.why_not_ready,
            around.metrics.exposition,
        )
        stack.callback(health.close)
        around.health = health.address
    return around


def _serve(manifest: Manifest, signals: StopSignals, stack: ExitStack, *, as_json: bool) -> None:
    around = _surround(manifest, stack)
    transport = stack.enter_context(ZenohTransport.open(manifest.zenoh))
    _LOG.info("event=loading model=%s device=%s", manifest.model_name, manifest.model.device)
    policy = load_served(manifest)

    from lefleet.cli.served import served_fields, served_text
    from lefleet.server.service import PolicyService

    service = PolicyService(policy, manifest, transport, around.observers, around.ring)
    signals.hold()
    with service:
        around.metrics.watch(service, around.skipped)
        around.why_not_ready = ""
        for warning in policy.warnings:
            _LOG.warning("event=warning text=%s", warning)
        said = (policy, manifest, service.status(), around.health)
        if as_json:
            print_json_line({"event": "serving", **served_fields(*said)})
        else:
            _say(served_text(*said))
        signals.wait()
        around.why_not_ready = "draining"
        service.drain()


def _say(text: str) -> None:
    """To stderr, because audit lines may be on stdout."""
    print(text, file=sys.stderr, flush=True)


def _plan(command: Serve, manifest: Manifest) -> int:
    if command.rtt_ms < 0:
        raise BadInput(f"rtt_ms: {command.rtt_ms:g} is below 0.")
    policy = load_served(manifest)

    from lefleet.policy.warmup import measure

    inference_s, rtt_s = measure(policy), command.rtt_ms / 1000
    capacity = robots(
        inference_s=inference_s,
        fps=manifest.trained_fps or policy.contract.fps,
        chunk_size=policy.chunk_size,
        n_action_steps=policy.n_action_steps,
        rtt_s=rtt_s,
        max_sessions=manifest.max_sessions,
        is_exclusive=policy.mode == "exclusive",
    )
    if command.json:
        measured = {"inference_s": inference_s, "rtt_s": rtt_s, "serving_mode": policy.mode}
        print_json({**asdict(capacity), **measured})
        return 0
    print(plan_text(capacity, inference_s, rtt_s, policy.mode_reason))
    print("Measured just now: whatever else keeps this machine busy is in the inference time.")
    return 0
