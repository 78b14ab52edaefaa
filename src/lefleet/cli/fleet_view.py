"""What `lefleet fleet` shows: servers, robots as they report themselves, sessions on servers."""

from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lefleet.cli.display import table
from lefleet.cli.output import printable
from lefleet.queries.words import duration
from lefleet_client.remote import RobotsFound
from lefleet_client.wire import RobotStatus, ServerStatus

_OLD_S = 5.0
"""A robot writes its status about once a second: from here on its program may hang."""
_STYLES = {"streaming": "", "stalled": "red", "dead": "red"}
_OTHER_STYLE = "yellow"


class FleetView(NamedTuple):
    """Servers and robots of the requested service; if it has no servers, the names of others."""

    servers: tuple[ServerStatus, ...]
    robots: RobotsFound
    service: str = ""
    other_services: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "servers": self.servers,
            "robots": self.robots.robots,
            "silent_robots": self.robots.silent,
        }


def tables(view: FleetView) -> Group:
    """Servers, robots as they see themselves, and robots as their servers see them."""
    robots = _robots(view.robots)
    sessions = _sessions(view.servers)
    rest: list[RenderableType] = [one for one in (robots, sessions) if one.row_count]
    return Group(_servers(view), *rest)


def cell(text: str) -> Text:
    """Text that servers and robots chose: neither markup nor terminal commands."""
    return Text(printable(text))


def _servers(view: FleetView) -> Table | Text:
    if view.other_services:
        there = ", ".join(view.other_services)
        return cell(f"No server offers {view.service}. Available services: {there}.")
    if not view.servers:
        return Text("No servers. Start one with: lefleet serve")
    shown = table("service", "model", "server", "state", "robots", "load", "mode", "chunk")
    for one in view.servers:
        served = one.capabilities
        shown.add_row(
            cell(one.service),
            cell(f"{served.model} ({served.digest[:8]})"),
            cell(one.server),
            ("draining" if one.draining else "ready") + (", insecure" if one.insecure else ""),
            f"{one.sessions}/{one.max_sessions}",
            f"{one.load:.0%}",
            cell(served.serving_mode + (", RTC" if served.supports_rtc else "")),
            f"{served.chunk_size} at {served.contract.fps:g} Hz",
        )
    return shown


def _robots(found: RobotsFound) -> Table:
    shown = table(
        "robot", "state", "action age", "buffer", "fallbacks", "reconnects", "round trip p95",
        "images", "server", "episode", "remarks",
    )  # fmt: skip
    for one in found.robots:
        shown.add_row(
            cell(one.client_id),
            _state(one),
            f"{one.action_age_ms:.0f} ms",
            f"{one.buffer_ms:.0f} ms",
            str(one.fallbacks),
            str(one.reconnects),
            f"{one.round_trip_p95_ms:.0f} ms",
            cell(one.image_codec),
            cell(one.server),
            str(one.episode_id),
            cell("; ".join(_remarks(one))),
        )
    for name in found.silent:
        empty = [""] * 8
        shown.add_row(
            cell(name), Text("no answer", "red"), *empty, "its program runs, but does not answer"
        )
    return shown


def _state(robot: RobotStatus) -> Text:
    since = duration(robot.state_s + robot.age_s)
    paused = ", paused" if robot.paused else ""
    style = _STYLES.get(robot.state, _OTHER_STYLE)
    return Text(printable(f"{robot.state} for {since}{paused}"), style)


def _remarks(robot: RobotStatus) -> list[str]:
    """All that an operator should look at, the most urgent first."""
    remarks = [f"no news for {duration(robot.age_s)}"] if robot.age_s >= _OLD_S else []
    if robot.reason:
        remarks.append(robot.reason)
    counts = {"clamped": robot.clamped, "refused": robot.refused}
    if guarded := ", ".join(f"{count} {what}" for what, count in counts.items() if count):
        remarks.append(f"guard: {guarded}")
    return [*remarks, *robot.warnings]


def _sessions(servers: tuple[ServerStatus, ...]) -> Table:
    shown = table(
        "session of", "on server", "type", "images", "episode", "answered", "failed", "superseded",
        "wait", "inference", "idle for",
    )  # fmt: skip
    for server in servers:
        for one in server.clients:
            shown.add_row(
                cell(one.client_id),
                cell(server.server),
                cell(one.robot_type),
                cell(one.image_codec),
                str(one.episode_id),
                str(one.answered),
                str(one.failed),
                str(one.superseded),
                f"{one.queue_wait_ms:.1f} ms",
                f"{one.inference_ms:.1f} ms",
                f"{one.idle_s:.0f} s",
            )
    return shown
