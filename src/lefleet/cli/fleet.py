"""fleet and ping: which servers and robots there are, how they are, and how fast servers answer."""

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.live import Live

from lefleet.cli.commands import FleetCommand, PingCommand
from lefleet.cli.display import console, table
from lefleet.cli.fleet_view import FleetView, tables
from lefleet.cli.network import connect, may_read_robots, network_errors, operator_name
from lefleet.cli.output import print_json, print_json_line, printable, warn_on_stderr
from lefleet.cli.signals import interruptible
from lefleet.errors import BadInput, LeFleetError
from lefleet.queries.fleet import NO_ROBOTS, FleetFound, FleetMemory
from lefleet_client.remote import (
    PingReport,
    Refused,
    RemoteChunk,
    RemotePolicy,
    RobotsFound,
    discover,
    discover_robots,
    example_observation,
    ping,
)
from lefleet_client.remote.observation import ArrayFrame
from lefleet_client.transport import Transport

_EVERY_S = 1.0
_WIDE = 240
_SLOW_S = 30.0
"""Time limit of one request, long enough to measure slow policies."""
_ONLY_OPERATORS = (
    "With a robot's certificate, fleet shows servers and their sessions. What robots report of "
    "themselves needs an operator's: lefleet certs operator NAME"
)
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


@network_errors()
def fleet(command: FleetCommand) -> int:
    """Print servers and robots once, or until Ctrl-C."""
    if command.once and command.watch:
        raise BadInput("once, watch: they contradict each other.", "Give one of them.")
    warn_on_stderr()
    is_live = sys.stdout.isatty() and not command.json and not command.once
    if not may_read_robots(command):
        print(_ONLY_OPERATORS, file=sys.stderr)
    with interruptible(), connect(command) as transport:
        if not is_live and not command.watch:
            view = _view(transport, command, FleetMemory())
            _show(view, as_json=command.json)
            is_empty = view.found == FleetFound((), NO_ROBOTS)
            if is_empty and any(one.startswith("tls/") for one in command.connect):
                print(_MAYBE_DENIED, file=sys.stderr)
            return 0 if view.found.servers else 1
        with suppress(KeyboardInterrupt):
            _watch(_views(transport, command), command, is_live=is_live)
    return 0


def _view(transport: Transport, command: FleetCommand, memory: FleetMemory) -> FleetView:
    timeout_s = command.timeout_s
    servers = discover(transport, command.service, timeout_s=timeout_s, with_clients=True)
    # What an access list denies ends with the time-out, so it is not even asked.
    robots = discover_robots(transport, timeout_s) if may_read_robots(command) else NO_ROBOTS
    others: tuple[str, ...] = ()
    if command.service:
        named = ("", command.service, *(one.service for one in servers))
        there = tuple(one for one in robots.robots if one.service in named)
        robots = RobotsFound(there, robots.silent)
        others = () if servers else _services(transport, timeout_s)
    found = FleetFound(servers, robots)
    return FleetView(found, memory.look(found, time.time()), command.service, others)


def _services(transport: Transport, timeout_s: float) -> tuple[str, ...]:
    return tuple(sorted({one.service for one in discover(transport, timeout_s=timeout_s)}))


def _views(transport: Transport, command: FleetCommand) -> Iterator[FleetView]:
    memory = FleetMemory()
    while True:
        began = time.monotonic()
        yield _view(transport, command, memory)
        time.sleep(max(0.0, _EVERY_S - (time.monotonic() - began)))


def _watch(views: Iterator[FleetView], command: FleetCommand, *, is_live: bool) -> None:
    if not is_live:
        for view in views:
            if command.json:
                print_json_line(view.as_json())
            else:
                _show(view, as_json=False)
        return
    with Live(auto_refresh=False) as live:
        for view in views:
            live.update(tables(view), refresh=True)


def _show(view: FleetView, *, as_json: bool) -> None:
    if as_json:
        print_json(view.as_json())
    else:
        # A pipe or file has no width that the table must fit into.
        width = None if sys.stdout.isatty() else _WIDE
        Console(highlight=False, markup=False, width=width).print(tables(view))


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
