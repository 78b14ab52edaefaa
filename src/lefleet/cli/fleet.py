"""fleet and ping: which servers there are, which robots use them, and how fast they answer."""

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from lefleet.cli.commands import FleetCommand, PingCommand
from lefleet.cli.display import console, table
from lefleet.cli.network import connect, network_errors, operator_name
from lefleet.cli.output import print_json, print_json_line, printable, warn_on_stderr
from lefleet.cli.signals import interruptible
from lefleet.errors import BadInput, LeFleetError
from lefleet_client.remote import (
    PingReport,
    Refused,
    RemoteChunk,
    RemotePolicy,
    discover,
    example_observation,
    ping,
)
from lefleet_client.remote.observation import ArrayFrame
from lefleet_client.transport import Transport
from lefleet_client.wire import ServerStatus

_EVERY_S = 1.0
_WIDE = 240
_SLOW_S = 30.0
"""Time limit of one request, long enough to measure slow policies."""
_MAYBE_DENIED = (
    "If one runs: is this certificate on the access list of the router or server? See: lefleet "
    "certs list"
)
_PARTS = {
    "encode": "images to bytes, on this machine",
    "network": "there and back",
    "queue": "waiting behind other robots",
    "prepare": "decoding and preprocessing",
    "inference": "the policy",
    "total": "",
}


class FleetView(NamedTuple):
    """Servers of the requested service; if there are none, the names of the services there are."""

    servers: tuple[ServerStatus, ...]
    service: str = ""
    other_services: tuple[str, ...] = ()


@network_errors()
def fleet(command: FleetCommand) -> int:
    """Print the servers once, or until Ctrl-C."""
    if command.once and command.watch:
        raise BadInput("once, watch: they contradict each other.", "Give one of them.")
    warn_on_stderr()
    is_live = sys.stdout.isatty() and not command.json and not command.once
    with interruptible(), connect(command) as transport:
        if not is_live and not command.watch:
            view = _view(transport, command)
            _show(view, as_json=command.json)
            if not view.servers and any(one.startswith("tls/") for one in command.connect):
                print(_MAYBE_DENIED, file=sys.stderr)
            return 0 if view.servers else 1
        with suppress(KeyboardInterrupt):
            _watch(_views(transport, command), command, is_live=is_live)
    return 0


def _view(transport: Transport, command: FleetCommand) -> FleetView:
    servers = discover(transport, command.service, timeout_s=command.timeout_s, with_clients=True)
    if servers or not command.service:
        return FleetView(servers)
    return FleetView((), command.service, _services(transport, command.timeout_s))


def _services(transport: Transport, timeout_s: float) -> tuple[str, ...]:
    return tuple(sorted({one.service for one in discover(transport, timeout_s=timeout_s)}))


def _views(transport: Transport, command: FleetCommand) -> Iterator[FleetView]:
    while True:
        began = time.monotonic()
        yield _view(transport, command)
        time.sleep(max(0.0, _EVERY_S - (time.monotonic() - began)))


def _watch(views: Iterator[FleetView], command: FleetCommand, *, is_live: bool) -> None:
    if not is_live:
        for view in views:
            if command.json:
                print_json_line({"servers": view.servers})
            else:
                _show(view, as_json=False)
        return
    with Live(auto_refresh=False) as live:
        for view in views:
            live.update(_tables(view), refresh=True)


def _show(view: FleetView, *, as_json: bool) -> None:
    if as_json:
        print_json({"servers": view.servers})
    else:
        # A pipe or file has no width that the table must fit into.
        width = None if sys.stdout.isatty() else _WIDE
        Console(highlight=False, markup=False, width=width).print(_tables(view))


def _tables(view: FleetView) -> Group | Text:
    """Servers, then their robots."""
    if view.other_services:
        there = ", ".join(view.other_services)
        return _cell(f"No server offers {view.service}. Available services: {there}.")
    if not view.servers:
        return Text("No servers. Start one with: lefleet serve")
    servers = table("service", "model", "server", "state", "robots", "load", "mode", "chunk")
    robots = table(
        "robot", "on server", "type", "images", "episode", "answered", "failed", "superseded",
        "wait", "inference", "idle for",
    )  # fmt: skip
    for one in view.servers:
        served = one.capabilities
        servers.add_row(
            _cell(one.service),
            _cell(f"{served.model} ({served.digest[:8]})"),
            _cell(one.server),
            ("draining" if one.draining else "ready") + (", insecure" if one.insecure else ""),
            f"{one.sessions}/{one.max_sessions}",
            f"{one.load:.0%}",
            _cell(served.serving_mode + (", RTC" if served.supports_rtc else "")),
            f"{served.chunk_size} at {served.contract.fps:g} Hz",
        )
        for robot in one.clients:
            robots.add_row(
                _cell(robot.client_id),
                _cell(one.server),
                _cell(robot.robot_type),
                _cell(robot.image_codec),
                str(robot.episode_id),
                str(robot.answered),
                str(robot.failed),
                str(robot.superseded),
                f"{robot.queue_wait_ms:.1f} ms",
                f"{robot.inference_ms:.1f} ms",
                f"{robot.idle_s:.0f} s",
            )
    return Group(servers, robots) if robots.row_count else Group(servers)


def _cell(text: str) -> Text:
    """Text that servers and robots chose: neither markup nor terminal commands."""
    return Text(printable(text))


class _StandingRobot(RemotePolicy):
    """A robot that does not move: its earlier observations equal the current one."""

    def infer(self, observation: ArrayFrame, **rest: Any) -> RemoteChunk:
        earlier = [observation] * (self.ack.capabilities.n_obs_steps - 1)
        return super().infer(observation, **{"history": earlier, **rest})


@network_errors()
def ping_service(command: PingCommand) -> int:
    """Send example observations as a robot would, and print where the time went."""
    if command.count < 1:
        raise BadInput(f"count: {command.count} is below 1.")
    client_id = operator_name(command) or f"ping-{socket.gethostname()}-{os.getpid()}"
    warn_on_stderr()
    with connect(command) as transport:
        _require_service(transport, command)
        with _open(transport, command, client_id) as policy:
            observation = example_observation(policy.ack.capabilities.contract)
            report = ping(policy, observation, command.count)
    if command.json:
        print_json(asdict(report))
    else:
        _show_ping(report, command.service)
    return 0


def _open(transport: Transport, command: PingCommand, client_id: str) -> RemotePolicy:
    try:
        return _StandingRobot(
            command.connect,
            command.service,
            model=command.model,
            revision=command.revision,
            client_id=client_id,
            timeout_s=_SLOW_S,
            connect_timeout_s=command.timeout_s,
            transport=transport,
        )
    except Refused as error:
        if error.check != "capacity":
            raise
        raise LeFleetError(
            f"{printable(str(error))}.",
            "A ping needs a free session; see which robots hold them: lefleet fleet",
        ) from error


def _require_service(transport: Transport, command: PingCommand) -> None:
    """Fail at once: a robot waits for its service to appear, but a mistyped name never does."""
    if discover(transport, command.service, timeout_s=command.timeout_s):
        return
    there = printable(", ".join(_services(transport, command.timeout_s)))
    raise LeFleetError(
        f"service: no server offers {command.service!r}.",
        f"Available services: {there}." if there else "See: lefleet fleet",
    )


def _show_ping(report: PingReport, service: str) -> None:
    images = f", images as {report.image_codec}" if report.image_codec else ""
    servers = printable(", ".join(report.servers))
    out = console()
    out.print(f"{service}: {report.count} answers from {servers}{images}", style="bold")
    times = table("", "p50", "p95", "")
    for column in times.columns[1:3]:
        column.justify = "right"
    for part, meaning in _PARTS.items():
        spread = getattr(report, part)
        times.add_row(part, f"{spread.p50:.1f} ms", f"{spread.p95:.1f} ms", meaning)
    out.print(times)
