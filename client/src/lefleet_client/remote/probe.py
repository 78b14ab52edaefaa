"""Which image codec is the faster one on this link, found out by sending both."""

import itertools
import math
import time

from lefleet_client.remote.encoding import Codec, Request
from lefleet_client.remote.errors import BadObservation
from lefleet_client.remote.link import Link
from lefleet_client.wire import Probed, RequestFailed

ROUNDS = 5
LOST_S = 0.3
_MOST_LOST = 2


def choose_codec(
    link: Link,
    request: Request,
    *,
    seqs: "itertools.count[int]",
    episode_id: int,
    quality: int,
    until_s: float,
) -> Codec | None:
    """The codec that gets through and can be faster; None if the link is lost.

    One host does not mean one shared memory, and raw images may not fit through a slow link at
    all: only a measurement of this very link tells. The first messages of a kind are slow, because
    memory for them has yet to be found: the fastest of some tells what the next ones will be like.
    Where nothing comes back, or time is up, it is JPEG, which works on every link.
    """
    times: dict[Codec, list[float]] = {"jpeg": [], "raw": []}
    for _ in range(ROUNDS):
        for codec, found in times.items():
            if found.count(math.inf) < _MOST_LOST:
                number = (next(seqs), episode_id)
                codec_quality = 0 if codec == "raw" else quality
                found.append(_probe(link, request, number, codec_quality, until_s))
            if not link.is_usable:
                return None
            if time.monotonic() >= until_s:
                return "jpeg"
    return min(times, key=lambda codec: (_is_lossy(times[codec]), min(times[codec])))


def _is_lossy(times: list[float]) -> bool:
    """One loss may be anything's fault."""
    return times.count(math.inf) >= _MOST_LOST


def _probe(
    link: Link, request: Request, number: tuple[int, int], quality: int, until_s: float
) -> float:
    """Seconds until the server has decoded the images; infinite when it does not say so in time."""
    began_s = time.monotonic()
    seq_id, episode_id = number
    try:
        body = request.encode_probe(quality)
    except BadObservation:
        return math.inf
    link.send(body, seq_id, episode_id, time.monotonic_ns())
    lost_s = min(until_s, time.monotonic() + LOST_S)
    while link.is_usable and (left_s := lost_s - time.monotonic()) > 0:
        got = link.receive(left_s)
        if isinstance(got, Probed) and got.seq_id == seq_id:
            return time.monotonic() - began_s
        if isinstance(got, RequestFailed) and got.seq_id == seq_id:
            break
    return math.inf
