"""How long is a round trip, and what does it cost, on one host and over two networks?"""

from contextlib import ExitStack
from pathlib import Path

from benchmarks.report import Section, table
from benchmarks.serving.links import Link, can_shape, same_host, shaped
from benchmarks.serving.measuring import Trips, round_trips
from benchmarks.serving.stacks import OURS, STACKS
from benchmarks.serving.targets import Target, target_table
from benchmarks.workshop import Workshop, say

ROUNDS = 7
JPEG_PEER = "zeromq-jpeg"
FASTEST_SOCKET = "zeromq"
RAW_PEERS = tuple(name for name, stack in STACKS.items() if stack.is_raw_peer)
HEADER = (
    "stack",
    "p50",
    "p95",
    "LeFleet ÷ this",
    "bytes, both ways",
    "CPU robot",
    "CPU server",
)

Found = dict[str, Trips]


def measure(workshop: Workshop) -> Section:
    found = {"same host": _on(same_host(), workshop, dict.fromkeys(STACKS, 40))}
    if can_shape():
        requests = dict.fromkeys(STACKS, 25)
        found["1 Gbit/s"] = _on(shaped("1gbit", "1 Gbit/s"), workshop, requests)
        if not workshop.quick:
            requests = {name: 6 if stack.is_raw_peer else 20 for name, stack in STACKS.items()}
            found["100 Mbit/s"] = _on(shaped("100mbit", "100 Mbit/s"), workshop, requests)
        links = "Links are veth pairs between network namespaces, shaped both ways, without delay."
    else:
        links = "Shaped links were skipped: they need root. Bytes are of the whole loopback."
    return Section(
        "a round trip to a policy that computes nothing",
        (*(_table(title, trips) for title, trips in found.items()), target_table(_targets(found))),
        (
            "Two cameras of 480×640, 14 joints and a task go out, a chunk of 50×14 comes back",
            "twice (LeRobot's once). Server and robot are a process each.",
            f"{ROUNDS} rounds in turns, one robot, one request after the other; a ratio is the",
            "median of the rounds' own. JPEG is simplejpeg, quality 90, 4:2:0, some 50 kB a frame.",
            "LeRobot's: its real gRPC service, queue and pickled messages, called as its",
            "RobotClient does; without its image conversion and processors, and without its wait",
            "until 33 ms are over. ZeroMQ without copies is as fast as it gets over a socket;",
            "np.save is how GR00T's server packs arrays. LeFleet runs its whole server: sessions,",
            "scheduler, prepare and inference threads, audit log and metrics; its client chooses",
            "the codec by its own probe.",
            links,
        ),
    )


def _on(link: ExitStack, workshop: Workshop, requests: dict[str, int]) -> Found:
    rounds = 2 if workshop.quick else ROUNDS
    if workshop.quick:
        requests = dict.fromkeys(requests, 4)
    with link as where:
        folder = _folder(workshop, where)
        found = round_trips(where, list(STACKS), folder, rounds=rounds, requests=requests)
        say(f"{where.title} is done")
    return found


def _folder(workshop: Workshop, link: Link) -> Path:
    folder = workshop.folder / "serving" / link.title.replace("/", "-").replace(" ", "-")
    folder.mkdir(parents=True)
    return folder


def _table(title: str, found: Found) -> str:
    rows = [
        (
            STACKS[name].title + (f" ({trips.codec})" if trips.codec else ""),
            f"{trips.percentile_ms(50):.2f} ms",
            f"{trips.percentile_ms(95):.2f} ms",
            "" if name == OURS else f"{found[OURS].ratio(trips):.2f}",
            _size(trips.octets / trips.requests),
            f"{trips.robot_cpu_s / trips.requests * 1e3:.1f} ms",
            f"{trips.server_cpu_s / trips.requests * 1e3:.1f} ms",
        )
        for name, trips in found.items()
    ]
    return f"**{title}**\n\n{table(HEADER, rows)}"


def _targets(found: dict[str, Found]) -> list[Target]:
    limits = {"same host": 0.35, "1 Gbit/s": 0.35, "100 Mbit/s": 0.1}
    targets = []
    for title, trips in found.items():
        ratios = {name: trips[OURS].ratio(trips[name]) for name in RAW_PEERS}
        best = max(RAW_PEERS, key=ratios.__getitem__)
        what = f"{title}: LeFleet ÷ best raw peer ({STACKS[best].title})"
        targets.append(Target(what, limits[title], ratios[best]))
        if best == FASTEST_SOCKET:
            following = max((name for name in RAW_PEERS if name != best), key=ratios.__getitem__)
            what = f"{title}: LeFleet ÷ next best raw peer ({STACKS[following].title})"
            targets.append(Target(what, limits[title], ratios[following]))
        if title == "1 Gbit/s":
            what = f"{title}: LeFleet ÷ {STACKS[JPEG_PEER].title}"
            targets.append(Target(what, 1.0, trips[OURS].ratio(trips[JPEG_PEER])))
    return targets


def _size(octets: float) -> str:
    return f"{octets / 1e6:.2f} MB" if octets > 1e5 else f"{octets / 1e3:.1f} kB"
