"""fleet: which servers are there, and who is on them."""

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lefleet.cli.logs import warn_on_stderr
from lefleet.cli.network import connect
from lefleet.cli.output import print_json, print_json_line
from lefleet.cli.printable import printable
from lefleet.cli.serving import Fleet
from lefleet.errors import BadInput
from lefleet_client.remote import discover
from lefleet_client.transport import Transport
from lefleet_client.wire import ServerStatus

_EVERY_S = 1.0
_WIDE = 240


class _Look(NamedTuple):
    """Servers of the wanted service; where there are none, the services that there are."""

    found: tuple[ServerStatus, ...]
    wanted: str = ""
    others: tuple[str, ...] = ()


def fleet_command(command: Fleet) -> int:
    """Look once, or until Ctrl-C."""
    if command.once and command.watch:
        raise BadInput("once, watch: they contradict each other.", "Give one of them.")
    warn_on_stderr()
    is_live = sys.stdout.isatty() and not command.json and not command.once
    with connect(command) as transport:
        if not is_live and not command.watch:
            look = _look(transport, command)
            _show(look, as_json=command.json)
            return 0 if look.found else 1
        with suppress(KeyboardInterrupt):
            _watch(_looks(transport, command), command, is_live=is_live)
    return 0


def _look(transport: Transport, command: Fleet) -> _Look:
    found = discover(transport, command.service, timeout_s=command.timeout_s, with_clients=True)
    if found or not command.service:
        return _Look(found)
    others = {status.service for status in discover(transport, timeout_s=command.timeout_s)}
    return _Look((), command.service, tuple(sorted(others)))


def _looks(transport: Transport, command: Fleet) -> Iterator[_Look]:
    while True:
        began = time.monotonic()
        yield _look(transport, command)
        time.sleep(max(0.0, _EVERY_S - (time.monotonic() - began)))


def _watch(looks: Iterator[_Look], command: Fleet, *, is_live: bool) -> None:
    if not is_live:
        for look in looks:
            if command.json:
                print_json_line({"servers": look.found})
            else:
                _show(look, as_json=False)
        return
    with Live(auto_refresh=False) as live:
        for look in looks:
            live.update(_tables(look), refresh=True)


def _show(look: _Look, *, as_json: bool) -> None:
    if as_json:
        print_json({"servers": look.found})
    else:
        # Elsewhere than in a terminal nobody has to fit a table into 80 columns.
        width = None if sys.stdout.isatty() else _WIDE
        Console(highlight=False, markup=False, width=width).print(_tables(look))


def _tables(look: _Look) -> Group | Text:
    """Servers, then their robots."""
    found = look.found
    if look.others:
        return _cell(f"No server of {look.wanted}. There is {', '.join(look.others)}.")
    if not found:
        return Text("No servers. Start one with: lefleet serve")
    servers = _table("service", "model", "server", "state", "robots", "load", "mode", "chunk")
    for one in found:
        served = one.capabilities
        servers.add_row(
            _cell(one.service),
            _cell(f"{served.model} ({served.digest[:8]})"),
            _cell(one.server),
            "draining" if one.draining else "ready",
            f"{one.sessions}/{one.max_sessions}",
            f"{one.load:.0%}",
            _cell(served.serving_mode + (", RTC" if served.supports_rtc else "")),
            f"{served.chunk_size} at {served.contract.fps:g} Hz",
        )
    if not any(one.clients for one in found):
        return Group(servers)
    robots = _table(
        "robot", "on server", "type", "images", "episode", "answered", "failed", "superseded",
        "wait", "inference", "silent for",
    )  # fmt: skip
    for one in found:
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
    return Group(servers, robots)


def _cell(text: str) -> Text:
    """What servers and robots say of themselves: neither markup nor a terminal's commands."""
    return Text(printable(text))


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table
