"""One server and one robot as they report themselves, and whether a robot has trouble."""

from collections.abc import Collection
from typing import Literal

from lefleet.queries.words import clock, duration
from lefleet.records.border import Strict
from lefleet_client.remote import Spread
from lefleet_client.wire import RobotStatus, ServerStatus, SessionStatus

RobotTrouble = Literal["none", "attention", "bad"]
"""attention: it acts, but somebody should look. bad: it stands still, or nothing is known of it."""
SILENT, GONE = "silent", "gone"
"""States that no robot reports: present without news, and no longer present."""
_OLD_S = 5.0
"""A robot writes its status about once a second: from here on its program may hang. A first chunk
that takes longer is worth a look."""


class ChunkLatency(Strict, frozen=True, kw_only=True):
    """Over the last chunk of each session, as seen at each look: a sample of all chunks."""

    p50_ms: float
    p95_ms: float
    chunks: int
    """How many were seen."""


class SessionCard(Strict, frozen=True, kw_only=True):
    """One robot as its server sees it."""

    robot: str
    robot_type: str
    image_codec: str
    episode: int
    answered: int
    failed: int
    superseded: int
    queue_wait_ms: float
    inference_ms: float
    """Both of the last chunk."""
    idle_s: float
    warnings: tuple[str, ...]
    """How it differs from what the policy was trained with."""


class ServerCard(Strict, frozen=True, kw_only=True):
    """One policy server."""

    service: str
    server: str
    model: str
    digest: str
    draining: bool
    insecure: bool
    """Its network is beyond loopback and has no TLS."""
    sessions: int
    max_sessions: int
    load: float
    """From 0 to 1."""
    mode: str
    """How it shares the policy among robots; with RTC where it supports that."""
    chunk: str
    """How many actions a chunk has, and at which rate they are executed."""
    envelope_ms: float
    """Round trip (p95) up to which the checkpoint was shown not to lose success; 0: not known."""
    queue_wait: ChunkLatency | None
    inference: ChunkLatency | None
    """Both None before the first chunk."""
    clients: tuple[SessionCard, ...]


class RobotCard(Strict, frozen=True, kw_only=True):
    """One robot as it sees itself. Counts are since its program started."""

    name: str
    state: str
    """connecting, streaming, degraded, stalled, reconnecting, dead, or what a newer robot reports;
    silent: its program is present, but does not answer or has written nothing new; gone: it was
    there a moment ago."""
    state_text: str
    """The state with its duration; of a silent robot since when, and what it was then."""
    since_s: float
    """How long it has been in this state."""
    paused: bool
    trouble: RobotTrouble
    trouble_since: float | None
    """When the trouble began, in seconds since 1970, as far as it was seen: it lasts from one bad
    state to the next. None without trouble, and where only a warning tells of it."""
    remarks: tuple[str, ...]
    """All that an operator should look at, the most urgent first."""
    action_age_ms: float
    """Age of the observation behind the last executed action, when that was executed."""
    buffer_ms: float
    """How long the actions in its queue last."""
    fallbacks: int
    reconnects: int
    round_trip_ms: float
    """Of the last chunk."""
    round_trip_p95_ms: float
    server: str
    """Of its newest session; empty before the first."""
    service: str
    digest: str
    task: str
    robot_type: str
    image_codec: str
    episode: int
    age_s: float
    """How long ago it wrote this."""

    def is_heard(self) -> bool:
        """Whether its numbers are of now."""
        return self.state not in (SILENT, GONE)


def robot_card(
    robot: RobotStatus, at: float, servers: Collection[tuple[str, str]], namesakes: int = 0
) -> RobotCard:
    """A robot that has answered; `servers` are the services and names of those that did."""
    remarks = _remarks(robot)
    if robot.server and (robot.service, robot.server) not in servers:
        remarks.append(f"server {robot.server} does not answer")
    if namesakes:
        remarks.append(f"{namesakes + 1} robots report under this name")
    trouble = _trouble(robot, namesakes)
    state, since_s, state_text = _state(robot, at)
    return RobotCard(
        name=robot.client_id,
        state=state,
        state_text=state_text,
        since_s=since_s,
        paused=robot.paused,
        trouble=trouble,
        trouble_since=_trouble_since(robot, at) if trouble != "none" else None,
        remarks=tuple(remarks),
        action_age_ms=robot.action_age_ms,
        buffer_ms=robot.buffer_ms,
        fallbacks=robot.fallbacks,
        reconnects=robot.reconnects,
        round_trip_ms=robot.round_trip_ms,
        round_trip_p95_ms=robot.round_trip_p95_ms,
        server=robot.server,
        service=robot.service,
        digest=robot.digest,
        task=robot.task,
        robot_type=robot.robot_type,
        image_codec=robot.image_codec,
        episode=robot.episode_id,
        age_s=robot.age_s,
    )


def _state(robot: RobotStatus, at: float) -> tuple[str, float, str]:
    """What is known of it now: its state, for how many seconds, and both in words."""
    paused = ", paused" if robot.paused else ""
    if _has_no_news(robot):
        last = clock(at - robot.age_s, with_seconds=True)
        return SILENT, robot.age_s, f"no news since {last}, was {robot.state}{paused}"
    since_s = robot.state_s + robot.age_s
    return robot.state, since_s, f"{robot.state} for {duration(since_s)}{paused}"


def _has_no_news(robot: RobotStatus) -> bool:
    return robot.age_s >= _OLD_S


def _trouble_since(robot: RobotStatus, at: float) -> float | None:
    """When its state began, or when one that should be streaming wrote for the last time."""
    if robot.state != "streaming":
        return at - robot.state_s - robot.age_s
    return at - robot.age_s if _has_no_news(robot) else None


def _trouble(robot: RobotStatus, namesakes: int) -> RobotTrouble:
    if _has_no_news(robot) or robot.state == "dead":
        return "bad"
    if robot.paused:
        return "none"
    match robot.state:
        case "stalled":
            return "bad"
        case "reconnecting":
            # It executes what is left of its last chunk, then it stands still.
            return "attention" if robot.buffer_ms > 0 else "bad"
        case "connecting" if robot.state_s < _OLD_S:
            return "none"
        case "streaming":
            return "attention" if robot.warnings or namesakes else "none"
        case _:
            return "attention"


def _remarks(robot: RobotStatus) -> list[str]:
    """All that an operator should look at, the most urgent first."""
    silence = f"no news for {duration(robot.age_s)}: its program may hang"
    remarks = [silence] if _has_no_news(robot) else []
    if robot.reason:
        remarks.append(robot.reason)
    counts = {"clamped": robot.clamped, "refused": robot.refused}
    if guarded := ", ".join(f"{count} {what}" for what, count in counts.items() if count):
        remarks.append(f"guard: {guarded}")
    return [*remarks, *robot.warnings]


def server_card(server: ServerStatus, seen: Collection[SessionStatus]) -> ServerCard:
    """A server; percentiles are taken over the chunks that were `seen`."""
    served = server.capabilities
    return ServerCard(
        service=server.service,
        server=server.server,
        model=served.model,
        digest=served.digest,
        draining=server.draining,
        insecure=server.insecure,
        sessions=server.sessions,
        max_sessions=server.max_sessions,
        load=server.load,
        mode=served.serving_mode + (", RTC" if served.supports_rtc else ""),
        chunk=f"{served.chunk_size} at {served.contract.fps:g} Hz",
        envelope_ms=served.envelope_ms,
        queue_wait=_latency([one.queue_wait_ms for one in seen]),
        inference=_latency([one.inference_ms for one in seen]),
        clients=tuple(
            SessionCard(
                robot=one.client_id,
                robot_type=one.robot_type,
                image_codec=one.image_codec,
                episode=one.episode_id,
                answered=one.answered,
                failed=one.failed,
                superseded=one.superseded,
                queue_wait_ms=one.queue_wait_ms,
                inference_ms=one.inference_ms,
                idle_s=one.idle_s,
                warnings=one.warnings,
            )
            for one in server.clients
        ),
    )


def _latency(times_ms: list[float]) -> ChunkLatency | None:
    if not times_ms:
        return None
    spread = Spread.of(times_ms)
    return ChunkLatency(p50_ms=spread.p50, p95_ms=spread.p95, chunks=len(times_ms))
