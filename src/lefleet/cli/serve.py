"""serve and replay: a checkpoint for many robots, and its captured requests computed again."""

import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lefleet.certs.listener import TlsFiles
from lefleet.cli.checkpoints import choose_checkpoint
from lefleet.cli.commands import ReplayCommand, ServeCommand
from lefleet.cli.network import network_errors, open_again, open_node, wait_for_change
from lefleet.cli.output import log_to_stderr, print_json, print_json_line, printable
from lefleet.cli.signals import StoppedEarly, StopSignals
from lefleet.constitution import Grants, Rules, find, given, installed, rules_for_grants
from lefleet.constitution.active import WORKDIR
from lefleet.errors import BadInput
from lefleet.records.config_file import read_fields
from lefleet.server.capacity import plan_text, robots
from lefleet.server.capture import CapturedModel, CaptureRing, read_captures
from lefleet.server.manifest import EXAMPLE, Manifest, load_manifest, manifest_of, with_ready_device
from lefleet.server.monitoring import HealthServer, Metrics
from lefleet.server.observers import Observer, open_audit
from lefleet_client.transport import ZenohTransport
from lefleet_client.wire import Contract, ServerStatus

if TYPE_CHECKING:
    from lefleet.policy import ServedPolicy
    from lefleet.server.service import PolicyService

_LOG = logging.getLogger(__name__)
_MAX_SHOWN = 20
_MAX_NAMES = 300


@network_errors(listen="--zenoh.listen='[tcp/127.0.0.1:7448]'")
def serve(command: ServeCommand, overrides: Sequence[str]) -> int:
    """Everything that can be wrong without the policy is checked before the policy is loaded."""
    manifest = manifest_for(command, overrides)
    with installed(require_allowed(manifest, command.workdir)):
        manifest = with_ready_device(manifest)
    if command.plan:
        return _plan(command, manifest)
    log_to_stderr()
    # Ten times as often as by default: the inference thread gives up Python's lock for each
    # operation, and waits for it again behind every thread that is busy with other messages.
    sys.setswitchinterval(0.0005)
    try:
        with StopSignals() as signals, ExitStack() as stack:
            _serve(manifest, signals, stack, as_json=command.json)
    except StoppedEarly:
        _LOG.info("event=stopped_before_ready")
    return 0


def manifest_for(command: ServeCommand, overrides: Sequence[str]) -> Manifest:
    """The manifest of a serve command; a checkpoint named there replaces that of the file."""
    if command.insecure:
        overrides = [*overrides, "--insecure=true"]
    if command.tls:
        overrides = [*overrides, f"--zenoh.tls={json.dumps(command.tls)}"]
    if not command.checkpoint:
        return load_manifest(command.manifest, overrides)
    found = choose_checkpoint(command.checkpoint, command.workdir, "checkpoint")
    fields = read_fields(command.manifest, "manifest", EXAMPLE) if command.manifest else {}
    if isinstance(model := fields.get("model") or {}, dict):
        fields["model"] = {**model, "repo_or_path": found.location}
    if found.run:
        fields["model_name"] = found.run
    manifest = manifest_of(fields, overrides, str(command.manifest or ""))
    if (other := manifest.model.repo_or_path) != found.location:
        raise BadInput(
            f"model.repo_or_path: {other} is not the checkpoint that {command.checkpoint} names, "
            f"{found.location}.",
            "Give one of them.",
        )
    return manifest


def require_allowed(manifest: Manifest, workdir: Path) -> Rules:
    """The rules for what is served, before anything of it is loaded; Denied where they do not allow
    it.

    A server that LeFleet starts has its parent's rules; of one that a person starts, what the
    manifest names is what they grant.
    """
    model = manifest.model
    named = tuple(name for name in (model.repo_or_path, model.peft) if name)
    own = Grants(checkpoints=named, plugins=model.discover_packages)
    rules = given() or rules_for_grants(find(workdir, manifest.constitution), own)
    rules.check_served(
        model.repo_or_path,
        adapter=model.peft,
        plugins=model.discover_packages,
        task=manifest.default_task,
    )
    return rules


def load_served(manifest: Manifest) -> "ServedPolicy":
    """Load the policy that a manifest names and warm it up; this takes seconds."""
    from lefleet.policy import load_policy

    return load_policy(
        manifest.model,
        contract=manifest.contract,
        trust_order=manifest.trust_order,
        serving_mode=manifest.serving_mode,
        rtc=manifest.rtc,
        warmup_inferences=manifest.warmup_inferences,
    )


@dataclass
class _Monitoring:
    """What observes requests, and what answers questions about the server's health."""

    metrics: Metrics = field(default_factory=Metrics)
    observers: list[Observer] = field(default_factory=list)
    skipped: dict[str, Callable[[], int]] = field(default_factory=dict)
    ring: CaptureRing | None = None
    health: str = ""
    """Address of the health pages."""
    why_not_ready: str = "warming up"


def _monitor(manifest: Manifest, stack: ExitStack) -> _Monitoring:
    monitoring = _Monitoring()
    monitoring.observers.append(monitoring.metrics)
    if (audit := open_audit(manifest.audit)) is not None:
        stack.callback(audit.close)
        monitoring.observers.append(audit)
        monitoring.skipped["audit"] = lambda: audit.skipped
    if manifest.capture is not None:
        ring = CaptureRing(manifest.capture, CapturedModel.of(manifest))
        stack.callback(ring.close)
        monitoring.ring = ring
        monitoring.skipped["capture"] = lambda: ring.skipped
    if manifest.http_port:
        health = HealthServer(
            manifest.http_host,
            manifest.http_port,
            lambda: monitoring.why_not_ready,
            monitoring.metrics.exposition,
        )
        stack.callback(health.close)
        monitoring.health = health.address
    return monitoring


def _serve(manifest: Manifest, signals: StopSignals, stack: ExitStack, *, as_json: bool) -> None:
    """Serve until a signal comes; when certificate files have changed, drain and serve again."""
    monitoring = _monitor(manifest, stack)
    files = TlsFiles(manifest.zenoh)
    transport = stack.enter_context(open_node(manifest.zenoh, signals))
    _LOG.info("event=loading model=%s device=%s", manifest.model_name, manifest.model.device)
    policy = load_served(manifest)
    for warning in policy.warnings:
        _LOG.warning("event=warning text=%s", warning)
    signals.hold()
    while True:
        service = _service(policy, manifest, transport, monitoring, signals)
        with service:
            monitoring.metrics.watch(service, monitoring.skipped)
            monitoring.why_not_ready = ""
            _print_served(policy, manifest, service.status(), monitoring.health, as_json=as_json)
            is_stopping = wait_for_change(signals, files)
            monitoring.why_not_ready = "draining"
            service.drain()
        service.require_own_name()
        if is_stopping:
            return
        transport.close()
        transport = stack.enter_context(open_again(manifest.zenoh, signals))


def _service(
    policy: "ServedPolicy",
    manifest: Manifest,
    transport: ZenohTransport,
    monitoring: _Monitoring,
    signals: StopSignals,
) -> "PolicyService":
    from lefleet.server.service import PolicyService

    return PolicyService(
        policy,
        manifest,
        transport,
        monitoring.observers,
        monitoring.ring,
        on_name_taken=signals.stop,
    )


def _print_served(
    policy: "ServedPolicy", manifest: Manifest, status: ServerStatus, health: str, *, as_json: bool
) -> None:
    served = (policy, manifest, status, health)
    if as_json:
        print_json_line({"event": "serving", **served_fields(*served)})
    else:
        # On stderr, because audit lines may be on stdout.
        print(served_text(*served), file=sys.stderr, flush=True)


def served_fields(
    policy: "ServedPolicy", manifest: Manifest, status: ServerStatus, health: str
) -> dict[str, Any]:
    """What a server serves, as JSON fields; names and limits are those that robots see."""
    return {
        "service": status.service,
        "server": status.server,
        "instance_id": status.instance_id,
        **msgspec.structs.asdict(status.capabilities),
        "policy_type": policy.contract.policy_type,
        "mode_reason": policy.mode_reason,
        "contract_source": policy.contract_source,
        "max_sessions": status.max_sessions,
        "insecure": status.insecure,
        "listen": manifest.zenoh.listen,
        "connect": manifest.zenoh.connect,
        "health": health,
        "warnings": policy.warnings,
    }


def served_text(
    policy: "ServedPolicy", manifest: Manifest, status: ServerStatus, health: str
) -> str:
    """What a server serves, for a person."""
    zenoh, served = manifest.zenoh, status.capabilities
    dtype = manifest.model.dtype
    precision = "dtype of the checkpoint" if dtype == "auto" else dtype
    rtc = f", real-time chunking over {served.rtc_horizon}" if served.supports_rtc else ""
    rows = {
        "model": f"{served.model} ({policy.contract.policy_type}, revision {served.revision})",
        "checkpoint": f"{manifest.model.repo_or_path}, digest {policy.digest[:12]}",
        "device": f"{manifest.model.device}, {precision}",
        "mode": f"{served.serving_mode}: {policy.mode_reason}",
        "contract": f"{_contract_text(policy.contract)}; from {policy.contract_source}",
        "chunks": f"{served.chunk_size} steps, {served.n_action_steps} of them executed{rtc}",
        "envelope": f"round trips up to {served.envelope_ms:.0f} ms" if served.envelope_ms else "",
        "robots": f"up to {status.max_sessions}",
        "listens on": ", ".join(zenoh.listen),
        "connects to": ", ".join(zenoh.connect),
        "insecure": "anyone on the network can read and forge messages" if status.insecure else "",
        "health": health,
        "captures": manifest.capture.dir if manifest.capture else "",
    }
    lines = [f"  {name:<11} {printable(value)}" for name, value in rows.items() if value]
    title = f"Service {status.service} on server {status.server}"
    return "\n".join([title, *lines, "Ready. Stop it with Ctrl-C."])


def _contract_text(contract: Contract) -> str:
    """The number of columns, and the cameras, on one line."""
    vectors = [f"{key} {len(names)}" for key, names in contract.vectors.items()]
    cameras = [f"{key} {height}x{width}" for key, (height, width, _) in contract.cameras.items()]
    parts = [f"action {len(contract.action_names)}", *vectors, *cameras, f"{contract.fps:g} Hz"]
    return ", ".join(parts)


def _plan(command: ServeCommand, manifest: Manifest) -> int:
    if command.rtt_ms < 0:
        raise BadInput(f"rtt_ms: {command.rtt_ms:g} is below 0.")
    policy = load_served(manifest)

    from lefleet.policy.warmup import measure

    inference_s, rtt_s = measure(policy), command.rtt_ms / 1000
    capacity = robots(
        inference_s=inference_s,
        fps=manifest.trained_fps or policy.contract.fps,
        chunk_size=policy.capabilities.chunk_size,
        n_action_steps=policy.capabilities.n_action_steps,
        rtt_s=rtt_s,
        max_sessions=manifest.max_sessions,
        is_exclusive=policy.is_exclusive,
    )
    if command.json:
        measured = {
            "inference_s": inference_s,
            "rtt_s": rtt_s,
            "serving_mode": policy.capabilities.serving_mode,
        }
        print_json({**asdict(capacity), **measured})
        return 0
    print(plan_text(capacity, inference_s, rtt_s, policy.mode_reason))
    print("Measured just now: other load on this machine increases the inference time.")
    return 0


@network_errors()
def replay(command: ReplayCommand, overrides: Sequence[str]) -> int:
    """Exit code 0 if every chunk is the same as before, otherwise 1."""
    folder = command.folder.expanduser()
    captured = _captured_model(folder)
    if command.manifest is None:
        if not command.allow_packages:
            _require_no_packages(captured, overrides, folder)
        manifest = manifest_of(msgspec.to_builtins(captured), overrides, str(folder))
    else:
        manifest = load_manifest(command.manifest, overrides)
    with installed(require_allowed(manifest, WORKDIR)):
        manifest = with_ready_device(manifest)
    policy = load_served(manifest)

    from lefleet.server.replay import replay as recompute

    report = recompute(folder, policy)
    if command.json:
        print_json({"is_same": report.is_same, **asdict(report)})
        return 0 if report.is_same else 1
    for note in report.notes:
        print(note, file=sys.stderr)
    others = [one for one in report.requests if one.result not in ("equal", "close")]
    for one in others[:_MAX_SHOWN]:
        reason = one.reason or f"differs by up to {one.max_difference:.3g}"
        request = f"{one.client_id} episode {one.episode_id} seq {one.seq_id}"
        print(f"{one.name}  {printable(f'{request}: {reason}')}")
    if len(others) > _MAX_SHOWN:
        print(f"... and {len(others) - _MAX_SHOWN} more; see --json")
    counts = Counter(one.result for one in report.requests)
    print(", ".join(f"{count} {result}" for result, count in sorted(counts.items())))
    return 0 if report.is_same else 1


def _require_no_packages(captured: CapturedModel, overrides: Sequence[str], folder: Path) -> None:
    """A file must not decide which code runs; what is named on the command line is a choice."""
    packages = captured.model.discover_packages
    if packages and not any(one.startswith("--model.discover_packages=") for one in overrides):
        names = printable(", ".join(packages))[:_MAX_NAMES]
        raise BadInput(
            f"{folder}: its captures name packages to import: {names}.",
            "Give --allow-packages if you trust them, or --manifest.",
        )


def _captured_model(folder: Path) -> CapturedModel:
    for _, capture in read_captures(folder):
        return capture.policy
    raise BadInput(f"{folder}: it holds no captures.", "Name the capture.dir of a server.")
