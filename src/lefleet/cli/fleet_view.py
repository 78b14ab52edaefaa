"""What `lefleet fleet` shows: servers, robots as they report themselves, sessions on servers."""

from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lefleet.cli.display import table
from lefleet.cli.output import printable
from lefleet.queries.fleet import NO_SERVERS, FleetFound, FleetStatus
from lefleet.queries.fleet_cards import GONE, SILENT, RobotCard, ServerCard
from lefleet_client.wire import RobotStatus, ServerStatus

_STYLES = {"none": "", "attention": "yellow", "bad": "red"}
_MARKS = {SILENT: "? ", GONE: "○ "}
"""Shapes as on the dashboard: a state that is out of date is not told by colour alone."""


class FleetView(NamedTuple):
    """Servers and robots of the requested service; if it has no servers, the names of others."""

    found: FleetFound
    status: FleetStatus
    service: str = ""
    other_services: tuple[str, ...] = ()

    def as_json(self) -> dict[str, tuple[ServerStatus | RobotStatus | str, ...]]:
        return {
            "servers": self.found.servers,
            "robots": self.found.robots.robots,
            "silent_robots": self.found.robots.silent,
        }


def tables(view: FleetView) -> Group:
    """Servers, robots as they see themselves, and robots as their servers see them."""
    robots = _robots(view.status.robots)
    sessions = _sessions(view.status.servers)
    rest: list[RenderableType] = [one for one in (robots, sessions) if one.row_count]
    return Group(_servers(view), *rest, *_warnings(view.status.servers))


def cell(text: str) -> Text:
    """Text that servers and robots chose: neither markup nor terminal commands."""
    return Text(printable(text))


def _servers(view: FleetView) -> Table | Text:
    if view.other_services:
        there = ", ".join(view.other_services)
        return cell(f"No server offers {view.service}. Available services: {there}.")
    if not view.status.servers:
        return Text(NO_SERVERS)
    shown = table("service", "model", "server", "state", "robots", "load", "mode", "chunk")
    for one in view.status.servers:
        shown.add_row(
            cell(one.service),
            cell(f"{one.model} ({one.digest[:8]})"),
            cell(one.server),
            ("draining" if one.draining else "ready") + (", insecure" if one.insecure else ""),
            f"{one.sessions}/{one.max_sessions}",
            f"{one.load:.0%}",
            cell(one.mode),
            one.chunk,
        )
    return shown


def _robots(robots: tuple[RobotCard, ...]) -> Table:
    shown = table(
        "robot", "state", "action age", "buffer", "fallbacks", "reconnects", "round trip p95",
        "images", "server", "episode", "remarks",
    )  # fmt: skip
    for one in robots:
        numbers = (
            f"{one.action_age_ms:.0f} ms",
            f"{one.buffer_ms:.0f} ms",
            str(one.fallbacks),
            str(one.reconnects),
            f"{one.round_trip_p95_ms:.0f} ms",
            cell(one.image_codec),
        )
        shown.add_row(
            cell(one.name),
            Text(_MARKS.get(one.state, "") + printable(one.state_text), _STYLES[one.trouble]),
            *(numbers if one.is_heard() else [""] * len(numbers)),
            cell(one.server),
            str(one.episode) if one.is_heard() else "",
            cell("; ".join(one.remarks)),
        )
    return shown


def _warnings(servers: tuple[ServerCard, ...]) -> Iterator[Text]:
    """How robots differ from what the policies were trained with, a line each."""
    for server in servers:
        for one in server.clients:
            for warning in one.warnings:
                line = printable(f"{one.robot} on {server.server}: {warning}")
                yield Text(line, _STYLES["attention"])


def _sessions(servers: tuple[ServerCard, ...]) -> Table:
    shown = table(
        "session of", "on server", "type", "images", "episode", "answered", "failed", "superseded",
        "wait", "inference", "idle for",
    )  # fmt: skip
    for server in servers:
        for one in server.clients:
            shown.add_row(
                cell(one.robot),
                cell(server.server),
                cell(one.robot_type),
                cell(one.image_codec),
                str(one.episode),
                str(one.answered),
                str(one.failed),
                str(one.superseded),
                f"{one.queue_wait_ms:.1f} ms",
                f"{one.inference_ms:.1f} ms",
                f"{one.idle_s:.0f} s",
            )
    return shown
