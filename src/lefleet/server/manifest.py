"""What to serve, and how: a YAML file, and `--a.b=c` on top of it."""

import os
import re
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from lefleet.devices import parse_device, ready_device
from lefleet.errors import BadInput
from lefleet.policy.settings import ContractOverride, ModelSettings, RtcSettings, ServingMode
from lefleet.records.border import Strict
from lefleet.records.config_file import converted, merge, read_fields
from lefleet_client.transport import BadSettings, Tls, ZenohSettings, certified_name
from lefleet_client.transport.settings import zenoh_config
from lefleet_client.wire import BadKey, slug

LISTEN = "tcp/127.0.0.1:7447"
"""Where a server is found unless the manifest says otherwise: on its own machine only."""

_NONE = {"repo_or_path": ""}

EXAMPLE = "configs/serve.yaml"

_LONGEST_NAME = 80
_LAYOUT = re.compile(r"pretrained_model|checkpoints|last|train|cycle_\d+|\d+")
"""Folders that are called the same in every training."""

Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
Port = Annotated[int, Meta(ge=0, le=65535)]


class CaptureSettings(Strict, frozen=True, kw_only=True):
    """A ring of the last requests on disk: `max` of them, or fewer where they are large."""

    dir: Annotated[str, Meta(min_length=1)]
    max: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    max_mb: Annotated[int, Meta(ge=1, le=100_000_000)] = 2000
    """Millions of bytes, all together."""


class Manifest(Strict, frozen=True, kw_only=True):
    """One process: one checkpoint for many robots. `load_manifest` leaves no name empty."""

    model: ModelSettings
    contract: ContractOverride | None = None
    """What the columns mean, for a checkpoint that does not say so itself."""
    trust_order: bool = False
    """Serve a checkpoint whose columns have no names; every robot is warned."""
    default_task: str = ""
    """Task of requests that name none."""
    pin_task: bool = False
    """Refuse robots with another task."""
    model_name: str = ""
    """In keys. Empty: the hub id, or the name of the checkpoint's folder."""
    service_name: str = ""
    """In keys, the same for all replicas. Empty: from the default task, or the model's name."""
    server_name: str = ""
    """In keys, different for each replica. Empty: made from machine and process."""
    serving_mode: ServingMode = "auto"
    """auto: shared where that is proven to be safe. shared: do not start otherwise."""
    max_sessions: Annotated[int, Meta(ge=1, le=4096)] = 16
    warmup_inferences: Annotated[int, Meta(ge=1, le=10_000)] = 2
    trained_fps: Annotated[float, Meta(gt=0, le=10_000)] | None = None
    """None: that of the contract."""
    strict_fps: bool = False
    """Refuse robots with another control rate instead of warning them."""
    rtc: RtcSettings = RtcSettings()
    """Real-time chunking, for policies that support it."""
    session_idle_timeout_s: Seconds = 86_400.0
    """For a program that was forgotten. A robot that pauses for hours keeps its place."""
    first_request_s: Seconds = 30.0
    """A robot that has never sent an observation gives way after this time, if one waits."""
    grace_s: Seconds = 5.0
    """How long a robot that vanished may take to come back to its session."""
    image_codec: Literal["auto", "jpeg", "raw"] = "auto"
    """auto: each robot probes which one is faster."""
    prepare_threads: Annotated[int, Meta(ge=1, le=64)] = 2
    """Threads that decode and preprocess while the policy infers."""
    zenoh: ZenohSettings = ZenohSettings(mode="peer", listen=(LISTEN,))
    insecure: bool = False
    """Accept endpoints beyond this machine that are not encrypted."""
    http_host: str = "127.0.0.1"
    http_port: Port = 0
    """For health and metrics. 0: none."""
    audit: str = "auto"
    """Where a line for each request goes: stdout, none, or a file's path, which has a / in it.
    auto: stdout, unless that is a terminal."""
    capture: CaptureSettings | None = None
    constitution: str = ""
    """YAML file with rules. Empty: constitution.yaml in the work folder, and where there is none
    the one that comes with LeFleet."""

    @property
    def lease_s(self) -> float:
        """After this time a node that froze or lost its link counts as gone."""
        return float(zenoh_config(self.zenoh).get_json("transport/link/tx/lease")) / 1000


def load_manifest(path: Path | None, overrides: Sequence[str] = ()) -> Manifest:
    """The manifest in `path`, or the defaults, with `overrides` (`--a.b=c`) merged in."""
    if path is None:
        return manifest_of({}, overrides)
    return manifest_of(read_fields(path, "manifest", EXAMPLE), overrides, str(path))


def manifest_of(raw: dict[str, Any], overrides: Sequence[str] = (), source: str = "") -> Manifest:
    """The manifest with these fields; `source` is the file that they come from, for the error."""
    merge(raw, overrides)
    _list_endpoints(raw)
    _name_tls_files(raw)
    _serve_as_peer(raw)
    _require_insecure_at_top(raw)
    is_without_model = raw.get("model") is None
    # A misspelt field is the more likely mistake, and is named first.
    fields = {**raw, "model": _NONE} if is_without_model else raw
    manifest = converted(fields, Manifest, source, overrides)
    zenoh = msgspec.structs.replace(manifest.zenoh, insecure=manifest.insecure)
    manifest = msgspec.structs.replace(manifest, zenoh=zenoh)
    if is_without_model:
        raise BadInput(
            "model.repo_or_path: no checkpoint is named.",
            "Name a run, a --manifest FILE, or --model.repo_or_path=PATH_OR_HUB_ID.",
        )
    _check(manifest)
    return _named(manifest)


def with_ready_device(manifest: Manifest) -> Manifest:
    """The manifest with the device that it means on this machine, tried out in a child process."""
    device = ready_device(manifest.model.device, "model.device")
    model = msgspec.structs.replace(manifest.model, device=device)
    return msgspec.structs.replace(manifest, model=model)


def _list_endpoints(raw: dict[str, Any]) -> None:
    """A single endpoint need not be a list."""
    zenoh = raw.get("zenoh")
    if isinstance(zenoh, dict):
        for field in ("connect", "listen"):
            if isinstance(one := zenoh.get(field), str):
                zenoh[field] = [one]


def _name_tls_files(raw: dict[str, Any]) -> None:
    """A folder's path is enough."""
    zenoh = raw.get("zenoh")
    if isinstance(zenoh, dict) and isinstance(folder := zenoh.get("tls"), str):
        zenoh["tls"] = msgspec.to_builtins(Tls.folder(folder))


def _serve_as_peer(raw: dict[str, Any]) -> None:
    """Fill in where robots find this server: unlike a client, it waits for a router to appear."""
    zenoh = raw.get("zenoh")
    if isinstance(zenoh, dict):
        zenoh.setdefault("mode", "peer")
        if zenoh["mode"] != "client" and not zenoh.get("connect"):
            zenoh.setdefault("listen", [LISTEN])


def _require_insecure_at_top(raw: dict[str, Any]) -> None:
    """One place for it, with the name that it has everywhere."""
    zenoh = raw.get("zenoh")
    if isinstance(zenoh, dict) and "insecure" in zenoh:
        raise BadInput(
            "zenoh.insecure: it is a field of the manifest itself.",
            "Write insecure: true beside zenoh, or give --insecure.",
        )


def _named(manifest: Manifest) -> Manifest:
    model = manifest.model_name or model_label(manifest.model.repo_or_path)
    service = manifest.service_name or service_label(manifest.default_task, model)
    try:
        server = certified_name(
            manifest.zenoh.tls, manifest.server_name, "server_name", ("server",)
        )
    except BadSettings as error:
        where = "zenoh." if str(error).startswith("tls") else ""
        raise BadInput(f"{where}{error}.") from None
    server = server or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
    names = {"model_name": model, "service_name": service, "server_name": server}
    for field, name in names.items():
        try:
            slug(name, field)
        except BadKey as error:
            raise BadInput(f"{error}.", f"Give a {field} of letters and digits.") from None
    return msgspec.structs.replace(manifest, **names)


def _check(manifest: Manifest) -> None:
    """What types alone cannot say."""
    if not manifest.model.repo_or_path:
        raise BadInput("model.repo_or_path: it is empty.", "Name a checkpoint's folder or hub id.")
    parse_device(manifest.model.device, "model.device")
    if manifest.pin_task and not manifest.default_task:
        raise BadInput("pin_task: there is no task to pin.", "Give default_task.")
    if manifest.audit not in ("auto", "stdout", "none") and "/" not in manifest.audit:
        raise BadInput(
            f"audit: {manifest.audit!r} is neither auto nor stdout nor none nor a path.",
            f"Write a file in this folder as ./{manifest.audit or 'audit.jsonl'}.",
        )
    if not manifest.http_host:
        raise BadInput("http_host: it is empty.", "Use 127.0.0.1, or 0.0.0.0 for all networks.")
    try:
        zenoh_config(manifest.zenoh)
    except BadSettings as error:
        field = str(error).partition(":")[0]
        where = "zenoh.extra" if field in manifest.zenoh.extra else "zenoh"
        raise BadInput(f"{where}.{error}.") from None
    if not manifest.zenoh.connect and not manifest.zenoh.listen:
        raise BadInput(
            "zenoh.listen: no robot could reach this server.", f"Give it, such as [{LISTEN}]."
        )


def model_label(repo_or_path: str) -> str:
    """A hub id as it is; of a folder the last name that says something.

    >>> model_label("runs/demo/train/checkpoints/000600/pretrained_model")
    'demo'
    """
    folder = Path(repo_or_path).expanduser()
    if not folder.is_dir() and not folder.is_absolute():
        return repo_or_path
    telling = [part for part in folder.resolve().parts[1:] if not _LAYOUT.fullmatch(part)]
    return telling[-1] if telling else folder.name


def service_label(default_task: str, model: str) -> str:
    """The task as a key can hold it, or the model where the task has no plain letter."""
    try:
        return slug(default_task[:_LONGEST_NAME], "service_name").strip("-.") or model
    except BadKey:
        return model
