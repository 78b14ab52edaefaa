"""ping: where the time between an observation and its chunk goes."""

import os
import socket
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lefleet.cli.logs import warn_on_stderr
from lefleet.cli.network import connect
from lefleet.cli.output import print_json
from lefleet.cli.printable import printable
from lefleet.cli.serving import Ping
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
from lefleet_client.remote.encoding import ArrayFrame
from lefleet_client.transport import Transport

_SLOW_S = 30.0
"""Slow policies are there to be measured too."""
_PARTS = {
    "encode": "images to bytes, here",
    "network": "there and back",
    "queue": "other robots' turns",
    "prepare": "decoding and preprocessing",
    "inference": "the policy",
    "total": "",
}


class _StandingRobot(RemotePolicy):
    """A robot that does not move: what it saw before is what it sees now."""

    def infer(self, observation: ArrayFrame, **rest: Any) -> RemoteChunk:
        earlier = [observation] * (self.ack.capabilities.n_obs_steps - 1)
        return super().infer(observation, **{"history": earlier, **rest})


def ping_command(command: Ping) -> int:
    """Be a robot for a moment, with made-up observations."""
    if command.count < 1:
        raise BadInput(f"count: {command.count} is below 1.")
    warn_on_stderr()
    with connect(command) as transport:
        _require_service(transport, command)
        with _open(transport, command) as policy:
            report = ping(
                policy, example_observation(policy.ack.capabilities.contract), command.count
            )
    if command.json:
        print_json(asdict(report))
    else:
        _show(report, command.service)
    return 0


def _open(transport: Transport, command: Ping) -> RemotePolicy:
    try:
        return _StandingRobot(
            command.connect,
            command.service,
            client_id=f"ping-{socket.gethostname()}-{os.getpid()}",
            timeout_s=_SLOW_S,
            connect_timeout_s=command.timeout_s,
            transport=transport,
        )
    except Refused as error:
        if error.check != "capacity":
            raise
        raise LeFleetError(
            f"{printable(str(error))}.",
            "A ping needs a robot's place; see who has it: lefleet fleet",
        ) from error


def _require_service(transport: Transport, command: Ping) -> None:
    """A robot waits for its service to appear; somebody who mistyped it does not want to."""
    if discover(transport, command.service, timeout_s=command.timeout_s):
        return
    there = {status.service for status in discover(transport, timeout_s=command.timeout_s)}
    raise LeFleetError(
        f"service: no server answers for {command.service!r}.",
        f"There is {printable(', '.join(sorted(there)))}." if there else "See: lefleet fleet",
    )


def _show(report: PingReport, service: str) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    images = f", images as {report.image_codec}" if report.image_codec else ""
    servers = printable(", ".join(report.servers))
    console.print(f"{service}: {report.count} answers of {servers}{images}", style="bold")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("half below", justify="right")
    table.add_column("95 % below", justify="right")
    table.add_column("")
    for part, meaning in _PARTS.items():
        spread = getattr(report, part)
        table.add_row(part, f"{spread.p50:.1f} ms", f"{spread.p95:.1f} ms", meaning)
    console.print(table)
