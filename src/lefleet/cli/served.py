"""What a server serves, in words and as fields."""

from typing import Any

from lefleet.cli.printable import printable
from lefleet.policy.served import ServedPolicy
from lefleet.server.manifest import Manifest
from lefleet_client.wire import Contract, ServerStatus


def served_fields(
    policy: ServedPolicy, manifest: Manifest, status: ServerStatus, health: str
) -> dict[str, Any]:
    """For a program; names and limits are those that robots see."""
    return {
        "model": status.capabilities.model,
        "revision": status.capabilities.revision,
        "service": status.service,
        "server": status.server,
        "digest": policy.digest,
        "policy_type": policy.policy_type,
        "serving_mode": policy.mode,
        "mode_reason": policy.mode_reason,
        "contract": policy.contract,
        "contract_source": policy.contract_source,
        "chunk_size": policy.chunk_size,
        "n_action_steps": policy.n_action_steps,
        "supports_rtc": policy.supports_rtc,
        "max_sessions": status.max_sessions,
        "listen": manifest.zenoh.listen,
        "connect": manifest.zenoh.connect,
        "health": health,
        "warnings": policy.warnings,
    }


def served_text(policy: ServedPolicy, manifest: Manifest, status: ServerStatus, health: str) -> str:
    """For a person."""
    zenoh, served = manifest.zenoh, status.capabilities
    rtc = f", real-time chunking over {policy.rtc_horizon}" if policy.supports_rtc else ""
    rows = {
        "model": f"{served.model} ({policy.policy_type}, revision {served.revision})",
        "checkpoint": f"{manifest.model.repo_or_path}, digest {policy.digest[:12]}",
        "device": f"{manifest.model.device}, {manifest.model.dtype}",
        "mode": f"{policy.mode}: {policy.mode_reason}",
        "contract": f"{contract_text(policy.contract)}; from {policy.contract_source}",
        "chunks": f"{policy.chunk_size} steps, {policy.n_action_steps} of them executed{rtc}",
        "robots": f"up to {status.max_sessions}",
        "listens on": ", ".join(zenoh.listen),
        "joins": ", ".join(zenoh.connect),
        "health": health,
        "captures": manifest.capture.dir if manifest.capture else "",
    }
    lines = [f"  {name:<11} {printable(value)}" for name, value in rows.items() if value]
    title = f"Service {status.service} on server {status.server}"
    return "\n".join([title, *lines, "Ready. Stop it with Ctrl-C."])


def contract_text(contract: Contract) -> str:
    """One line: how many columns there are, and which cameras."""
    vectors = [f"{key} {len(names)}" for key, names in contract.vectors.items()]
    cameras = [f"{key} {height}x{width}" for key, (height, width, _) in contract.cameras.items()]
    parts = [f"action {len(contract.action_names)}", *vectors, *cameras, f"{contract.fps:g} Hz"]
    return ", ".join(parts)
