"""Every attack by its name.

An attack prepares itself on a bus, which may open sessions, and returns its step: the caller
repeats it at full rate, and bounds it by time or count.
"""

import itertools
import os
import random
from collections.abc import Callable
from typing import NamedTuple

from tests.hostile import bodies
from tests.hostile.bus import Bus, header, pack

Step = Callable[[], None]


class Attack(NamedTuple):
    """How to prepare it, and what a server counts of it: drops by reason, and failed requests."""

    prepare: Callable[[Bus], Step]
    counted: tuple[str, ...]


ATTACKS: dict[str, Attack] = {}
FAILED = "failed"
"""Counted as a failed request of the attacker's own session, not as a drop."""


def _attack(*counted: str) -> Callable[[Callable[[Bus], Step]], Callable[[Bus], Step]]:
    def register(prepare: Callable[[Bus], Step]) -> Callable[[Bus], Step]:
        ATTACKS[prepare.__name__] = Attack(prepare, counted)
        return prepare

    return register


def _observing(bus: Bus, payloads: list[bytes], clients: int = 1) -> Step:
    """Publish these bodies in turns, from sessions that are open."""
    names = [f"hostile-{number}" for number in range(clients)]
    for name in names:
        bus.open(name)
    turns = itertools.cycle(itertools.product(payloads, names))

    def step() -> None:
        payload, name = next(turns)
        bus.observe(name, payload)

    return step


@_attack(FAILED)
def scan_bombs(bus: Bus) -> Step:
    """JPEGs of empty scans from four robots: a careless decoder takes seconds for each."""
    sizes = (bodies.FITTING, bodies.FITTING // 2)
    return _observing(bus, [bodies.bombed(bus.contract, size) for size in sizes], clients=4)


@_attack(FAILED)
def bad_bodies(bus: Bus) -> Step:
    """Bodies that cost much to decode, although their size is that of an honest one."""
    payloads = [
        bodies.repeated_keys(bodies.FITTING),
        bodies.repeated_vectors(bodies.FITTING),
        bodies.unknown_fields(bodies.FITTING),
        *bodies.huge_strings(bus.contract, bodies.FITTING),
        *(bodies.nested(depth) for depth in (100, 100_000)),
    ]
    return _observing(bus, payloads)


@_attack("too_large")
def huge_bodies(bus: Bus) -> Step:
    """As much as one message may have, of repeated keys: seconds to decode."""
    return _observing(bus, [bodies.repeated_keys(bodies.HUGE)])


@_attack()
def session_flood(bus: Bus) -> Step:
    """Small valid observations of one robot at full rate: only the newest one counts."""
    return _observing(bus, [bodies.observation(bus.contract)])


@_attack()
def probe_flood(bus: Bus) -> Step:
    """Probes of one robot with valid images: they are decoded, and no policy slows them down."""
    return _observing(bus, [bodies.probe(bus.contract)])


@_attack("no_session")
def unknown_flood(bus: Bus) -> Step:
    """Small observations under names that have no session."""
    payload = bodies.observation(bus.contract, images={})
    return lambda: bus.observe(f"nobody-{bus.sent % 2000}", payload)


@_attack("jump")
def forged_episodes(bus: Bus) -> Step:
    """Frames in another robot's name, with the largest episode and number that there are."""
    victim = next(name for name in bus.other_clients() if not name.startswith("hostile"))
    payload = bodies.observation(bus.contract)
    numbers = [(2**32 - 1, 0), (2**31, 2**63), (0, 2**64 - 1), (2**32 - 1, 2**64 - 1)]
    forged: list[bytes] = []

    def step() -> None:
        if bus.sent % 1000 == 0:  # The victim may have a new session by now.
            session_epoch = bus.overhear(victim)
            forged[:] = [header(seq_id, episode, session_epoch) for episode, seq_id in numbers]
        bus.observe(victim, payload, forged[bus.sent % len(forged)])

    return step


@_attack("length", "version", "type")
def garbage_headers(bus: Bus) -> Step:
    good = header()
    draw = random.Random(0)
    wrong = [
        *(draw.randbytes(size) for size in (0, 1, 26, 27, 27, 27, 28, 4096)),
        b"\x63" + good[1:],
        good[:2] + b"\x09" + good[3:],
    ]
    return lambda: bus.put(bus.key("nobody", "obs"), b"x", wrong[bus.sent % len(wrong)])


@_attack("question")
def large_opens(bus: Bus) -> Step:
    """Session questions of 4 MB whose names are all legal."""
    vectors = bodies.many_names(4 * bodies.MB)
    question = pack(bus.opening("hostile", vectors=vectors))
    return lambda: bus.shoot(bus.key("hostile", "session"), question)


@_attack("question")
def long_names(bus: Bus) -> Step:
    """Opens whose names have 16 KB, in each field that a log line may hold."""
    long = "\N{BELL}" * 2**12 + "x" * 2**13
    fields = ("client_id", "robot_type", "task", "model", "service", "pin_digest")
    questions = [pack(bus.opening("hostile", **{field: long})) for field in fields]
    return lambda: bus.shoot(bus.key("hostile", "session"), questions[bus.sent % len(questions)])


@_attack()
def slow_loris(bus: Bus) -> Step:
    """Opens under ever new names, alive, that never send an observation."""

    def step() -> None:
        name = f"loris-{os.getpid()}-{bus.sent}"
        bus.appear(name)
        bus.shoot(bus.key(name, "session"), pack(bus.opening(name)))

    return step


@_attack()
def reopening(bus: Bus) -> Step:
    """One name that opens again and again, each time with a new epoch."""

    def step() -> None:
        question = bus.opening("hostile", session_epoch=bus.sent)
        bus.shoot(bus.key("hostile", "session"), pack(question))

    return step


@_attack()
def status_flood(bus: Bus) -> Step:
    question = pack({"type": "status_request", "with_clients": True})
    return lambda: bus.shoot(f"{bus.base}/status", question)


@_attack()
def reset_flood(bus: Bus) -> Step:
    """Resets of an own session to ever newer episodes, and of one that does not exist."""
    ids = (bus.open("hostile"), "none")

    def step() -> None:
        reset = {
            "type": "reset",
            "session_id": ids[bus.sent % 2],
            "session_epoch": 1,
            "episode_id": bus.sent % 2**32,
        }
        bus.shoot(bus.key("hostile", "reset"), pack(reset))

    return step


@_attack("question")
def garbage_questions(bus: Bus) -> Step:
    """Bytes that are no question, on every key that answers, and patterns instead of keys."""
    draw = random.Random(0)
    payloads = [b"", b"\xc1", b"\x80", draw.randbytes(100), draw.randbytes(100_000)]
    client = {word: bus.key("hostile", word) for word in ("session", "reset")}
    keys = (*client.values(), f"{bus.base}/status", bus.key("*", "session"), bus.key("*", "reset"))
    turns = itertools.cycle(itertools.product(keys, payloads))
    return lambda: bus.shoot(*next(turns))


@_attack()
def token_flood(bus: Bus) -> Step:
    """Robots that appear and vanish without end."""

    def step() -> None:
        bus.sent += 1
        key = bus.key(f"ghost-{bus.sent % 1000}", "alive")
        bus.session.liveliness().declare_token(key).undeclare()

    return step
