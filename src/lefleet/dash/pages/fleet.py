"""Servers and robots, trouble first: which robot has some, since when, and on which server."""

import time
from functools import partial

from fastapi import Request
from nicegui import ui

from lefleet.dash.pages.frame import RESPONSE_S, OpenPage, Site
from lefleet.dash.pages.parts import LivePart, PlainText, Table, Tone, bar, box, card, chip, empty
from lefleet.queries.fleet import FleetStatus
from lefleet.queries.fleet_cards import ChunkLatency, RobotCard, ServerCard
from lefleet.queries.words import clock, duration

_TONES: dict[str, Tone] = {"none": "good", "attention": "warn", "bad": "bad"}


def register(site: Site) -> None:
    @ui.page("/fleet", response_timeout=RESPONSE_S)
    async def fleet(request: Request) -> None:
        view = OpenPage(site, request, "Fleet", "Fleet")
        with view.main:
            PlainText("h1", "Fleet")
            summary = LivePart[tuple[int, int, int] | None](_summary)
            trouble = LivePart[FleetStatus](lambda shown: _trouble(shown, view.flag))
            robots = LivePart[tuple[RobotCard, ...]](_robots)
            servers = LivePart[tuple[ServerCard, ...]](_servers)

        def show(found: FleetStatus) -> None:
            is_known = found.at is not None and not found.problem
            troubled = len(found.troubled())
            counts = (troubled, len(found.robots), len(found.servers))
            summary.show(counts if is_known else None)
            trouble.show(found)
            robots.show(found.robots)
            servers.show(found.servers)

        await view.follow(lambda: site.fleet.status(wait_s=1.5), show, every_tick=True)


def _summary(counts: tuple[int, int, int] | None) -> None:
    if counts is None or not any(counts):
        return
    troubled, robots, servers = counts
    with box("div", "tiles"):
        with box("div", f"tile {'calls' if troubled else ''}"):
            PlainText("strong", f"◆ {troubled}" if troubled else "✓ 0")
            PlainText("span", "in trouble" if troubled else "in trouble: all is well")
        with box("div", "tile"):
            PlainText("strong", str(robots))
            PlainText("span", "robot" if robots == 1 else "robots")
        with box("div", "tile"):
            PlainText("strong", str(servers))
            PlainText("span", "server answers" if servers == 1 else "servers answer")


def _trouble(found: FleetStatus, flag: str) -> None:
    if found.at is None or found.problem or not (found.robots or found.servers):
        with card():
            empty(
                "Looking for servers and robots …" if found.at is None else "No servers, no robots",
                found.problem or "Serve a checkpoint, then drive a robot with it.",
                commands=(f"lefleet serve demo{flag}", f"lefleet try demo{flag}"),
            )
        return
    for robot in found.troubled():
        with card("", "bad" if robot.trouble == "bad" else "calls"):
            with box("div", "row"):
                PlainText("h2", robot.name)
                chip(robot.state, tone=_TONES[robot.trouble], words=robot.state_text)
                where = f"on server {robot.server}" if robot.server else "on no server"
                PlainText("span", where, "muted")
            if robot.trouble_since is not None:
                ago = duration(time.time() - robot.trouble_since)
                PlainText("p", f"In trouble since {clock(robot.trouble_since)} ({ago} ago).")
            for remark in robot.remarks:
                PlainText("p", remark)


def _robots(robots: tuple[RobotCard, ...]) -> None:
    if not robots:
        return
    with card("Robots"):
        table = Table(
            "The worst first. Age: of the observation behind the last executed action. Fallbacks: "
            "ticks without a fresh action of the policy.",
            (
                *("robot", "state", "server", "action age", "round trip", "fallbacks"),
                *("reconnects", "task"),
            ),
        )
        for one in robots:
            # Numbers of a robot without news are no longer true.
            now = (
                _age(one.action_age_ms),
                f"{one.round_trip_ms:.0f} ms, p95 {one.round_trip_p95_ms:.0f} ms",
            )
            table.row(
                one.name,
                partial(chip, one.state, tone=_TONES[one.trouble], words=one.state_text),
                one.server or "–",
                *(now if one.is_heard() else ("–", "–")),
                str(one.fallbacks),
                str(one.reconnects),
                one.task or "–",
            )


def _servers(servers: tuple[ServerCard, ...]) -> None:
    if not servers:
        return
    with card("Servers"):
        table = Table(
            "Inference and wait: p50 and p95 over the chunks that were seen here.",
            ("server", "state", "model", "robots", "load", "inference", "wait"),
        )
        for one in servers:
            table.row(
                f"{one.server} ({one.service})",
                partial(chip, "draining" if one.draining else "ready"),
                f"{one.model} {one.digest[:8]}, chunks of {one.chunk}",
                f"{one.sessions} of {one.max_sessions}",
                partial(_load, one),
                _latency(one.inference),
                _latency(one.queue_wait),
            )
        for one in servers:
            for client in one.clients:
                for warning in client.warnings:
                    PlainText("p", f"⚠ {client.robot} on {one.server}: {warning}")


def _load(server: ServerCard) -> None:
    bar(server.load, f"load {server.load:.0%}")
    PlainText("div", f"{server.load:.0%}", "muted small")


def _age(age_ms: float) -> str:
    return f"{age_ms:.0f} ms" if age_ms < 10_000 else duration(age_ms / 1000)


def _latency(found: ChunkLatency | None) -> str:
    return f"{found.p50_ms:.0f} / {found.p95_ms:.0f} ms" if found else "–"
