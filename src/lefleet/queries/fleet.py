"""Servers and robots as they report themselves: which robot has trouble, since when, and on which
server.

`fleet_status` tells it from one look. `FleetMemory` adds what only several looks can tell: when
trouble began, who has left, and percentiles over many chunks.
"""

from collections import Counter, deque
from typing import NamedTuple

from msgspec.structs import replace

from lefleet.queries.fleet_cards import (
    GONE,
    SILENT,
    RobotCard,
    RobotTrouble,
    ServerCard,
    robot_card,
    server_card,
)
from lefleet.queries.words import duration
from lefleet.records.border import Strict
from lefleet_client.remote import RobotsFound
from lefleet_client.wire import RobotStatus, ServerStatus, SessionStatus, slug

NO_SERVERS = "No servers. Start one with: lefleet serve"
NO_ROBOTS = RobotsFound((), ())
_MISSED_S = 3.0
"""A robot that is missed for a shorter time may only have answered late."""
_REMEMBERED_S = 600.0
_REMEMBERED = 500
"""Robots that have left, at most: on an open network anybody can invent some."""
_CHUNKS = 200
"""Chunks of a server over which percentiles are taken, at most."""
_RANKS: tuple[RobotTrouble, ...] = ("bad", "attention", "none")


class FleetFound(NamedTuple):
    """What one look has found, with the sessions of servers."""

    servers: tuple[ServerStatus, ...]
    robots: RobotsFound


class FleetStatus(Strict, frozen=True, kw_only=True):
    """Servers and robots at one moment."""

    servers: tuple[ServerCard, ...] = ()
    robots: tuple[RobotCard, ...] = ()
    """The worst first; also silent ones and those that have left."""
    at: float | None = None
    """Seconds since 1970; None before the first look."""
    problem: str = ""
    """Why nothing can be seen, and what to do about it; empty while it can."""

    def troubled(self) -> tuple[RobotCard, ...]:
        """Robots that somebody should look at, the worst first."""
        return tuple(one for one in self.robots if one.trouble != "none")


def fleet_status(found: FleetFound, at: float) -> FleetStatus:
    """What one look tells."""
    return FleetMemory().look(found, at)


class FleetMemory:
    """What earlier looks have seen. For one thread."""

    def __init__(self) -> None:
        self._robots: dict[str, _Seen] = {}
        self._chunks: dict[str, deque[SessionStatus]] = {}
        """By instance of a server; one entry for each chunk that was seen."""

    def look(self, found: FleetFound, at: float) -> FleetStatus:
        """What is so now, given all that was seen before."""
        servers = tuple(server_card(one, self._chunks_of(one)) for one in found.servers)
        there = {one.instance_id for one in found.servers}
        self._chunks = {name: one for name, one in self._chunks.items() if name in there}
        now = [self._silent(name, at) for name in found.robots.silent]
        now += [self._continued(card) for card in _reported(found, at)]
        seen = {_key(card.name): _Seen(card, at) for card in now}
        absent = {
            key: one
            for key, one in self._robots.items()
            if key not in seen and at - one.at < _REMEMBERED_S
        }
        self._robots = dict(list((absent | seen).items())[-_REMEMBERED - len(seen) :])
        robots = now + [_absent(one, at) for one in absent.values()]
        return FleetStatus(
            servers=servers, robots=tuple(sorted(robots, key=lambda one: _urgency(one, at))), at=at
        )

    def _chunks_of(self, server: ServerStatus) -> deque[SessionStatus]:
        seen = self._chunks.setdefault(server.instance_id, deque(maxlen=_CHUNKS))
        known = {(one.session_id, one.answered) for one in seen}
        seen += [
            one
            for one in server.clients
            if one.answered and (one.session_id, one.answered) not in known
        ]
        return seen

    def _continued(self, card: RobotCard) -> RobotCard:
        """With the trouble that it had at the last look already."""
        before = self._robots.get(_key(card.name))
        if card.trouble == "none" or before is None:
            return card
        began = (before.card.trouble_since, card.trouble_since)
        return replace(card, trouble_since=min((one for one in began if one), default=None))

    def _silent(self, name: str, at: float) -> RobotCard:
        """As it was known before, if it was."""
        unknown = robot_card(RobotStatus(client_id=name, state=SILENT), at, ())
        before = self._robots.get(name, _Seen(unknown, at))
        was_silent = before.card.state == SILENT
        since = before.at - before.card.since_s if was_silent else at
        return replace(
            before.card,
            state=SILENT,
            state_text=f"no answer for {duration(at - since)}" if since < at else "no answer",
            since_s=at - since,
            trouble="bad",
            trouble_since=before.card.trouble_since or since,
            remarks=("its program runs, but does not answer",),
            age_s=before.card.age_s + at - before.at,
        )


class _Seen(NamedTuple):
    """A robot, and when it was last seen."""

    card: RobotCard
    at: float


def _key(name: str) -> str:
    """Silent robots are known by this alone."""
    return slug(name, "robot")


def _reported(found: FleetFound, at: float) -> list[RobotCard]:
    """Robots that have answered."""
    servers = {(one.service, one.server) for one in found.servers}
    names = Counter(one.client_id for one in found.robots.robots)
    return [robot_card(one, at, servers, names[one.client_id] - 1) for one in found.robots.robots]


def _absent(seen: _Seen, at: float) -> RobotCard:
    """A robot that was there before: answers may be late, then it has left."""
    card, missed_s = seen.card, at - seen.at
    if missed_s < _MISSED_S:
        return replace(card, age_s=card.age_s + missed_s, since_s=card.since_s + missed_s)
    is_orderly = card.state in ("streaming", "connecting")
    return replace(
        card,
        state=GONE,
        state_text=f"left {duration(missed_s)} ago, was {card.state}",
        since_s=missed_s,
        trouble="none" if is_orderly else card.trouble,
        trouble_since=None if is_orderly else card.trouble_since,
        age_s=card.age_s + missed_s,
    )


def _urgency(card: RobotCard, at: float) -> tuple[object, ...]:
    """The worst first; among equals who has it for longest, and those that have left last."""
    since = card.trouble_since or at
    return _RANKS.index(card.trouble), card.state == GONE, since, card.name
