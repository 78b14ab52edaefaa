"""Which films a report contains, as data inside it: pairs of gates in turn, then evaluations."""

import base64
import io
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lefleet.errors import BadInput
from lefleet.queries.cycles import run_media
from lefleet.queries.paging import MOST
from lefleet.queries.pairs import GatePair, pairs
from lefleet.queries.run import EvaluationFilm, RunDetail
from lefleet.queries.runs import RunReader
from lefleet.reports.html import Markup, element

MOST_BYTES = 14_000_000
"""Of all films together: as text in a file they take a third more, and mail servers often refuse
more than 20 MB."""


class ShownPair(NamedTuple):
    """A filmed pair; the films are elements."""

    pair: GatePair
    candidate: Markup
    baseline: Markup
    is_same: bool
    """Whether both episodes went as in the gate when they were filmed."""


class ShownEpisode(NamedTuple):
    """A filmed episode of an evaluation."""

    episode: EvaluationFilm
    film: Markup


class ReportFilms(NamedTuple):
    """What is in a report, and what is not."""

    pairs: dict[int, list[ShownPair]]
    """By cycle."""
    episodes: list[ShownEpisode]
    shown: int
    """Films."""
    left_out: int
    """Films that exist, but are not in it."""


def choose_films(reader: RunReader, detail: RunDetail, most: int) -> ReportFilms:
    """At most so many pairs and so many episodes, and no more bytes than fit."""
    run = detail.status.id
    by_cycle = {one.index: _filmed(reader, run, one.index) for one in detail.status.cycles}
    films = _Films(reader, run)
    shown: dict[int, list[ShownPair]] = {}
    for cycle, pair in list(_in_turn(by_cycle))[:most]:
        if (made := films.pair(cycle, pair)) is not None:
            shown.setdefault(cycle, []).append(made)
    episodes = [
        ShownEpisode(one, film)
        for one in detail.films[:most]
        if (film := films.one(one.cycle, "evaluate", one.file)) is not None
    ]
    exist = 2 * sum(map(len, by_cycle.values())) + len(detail.films)
    count = 2 * sum(map(len, shown.values())) + len(episodes)
    return ReportFilms(shown, episodes, count, exist - count)


def _filmed(reader: RunReader, run: str, cycle: int) -> list[GatePair]:
    """Filmed pairs of a gate: those in which one of the two succeeded come first."""
    found: list[GatePair] = []
    for offset in range(0, 10**9, MOST):
        page = pairs(reader.ledger, reader.workdir, run, cycle, offset=offset, limit=MOST)
        found += [one for one in page.items if one.film and one.film.state == "made"]
        if offset + MOST >= page.total:
            break
    return sorted(found, key=lambda one: one.outcome in ("both", "neither"))


def _in_turn(by_cycle: dict[int, list[GatePair]]) -> Iterator[tuple[int, GatePair]]:
    """One of each gate, the newest first, then another one of each."""
    longest = max(map(len, by_cycle.values()), default=0)
    for number in range(longest):
        for cycle in sorted(by_cycle, reverse=True):
            if number < len(by_cycle[cycle]):
                yield cycle, by_cycle[cycle][number]


class _Films:
    """Reads films until they are too large together."""

    def __init__(self, reader: RunReader, run: str) -> None:
        self._reader, self._run = reader, run
        self._left = MOST_BYTES

    def pair(self, cycle: int, pair: GatePair) -> ShownPair | None:
        film = pair.film
        if film is None or film.candidate is None or film.baseline is None:
            return None
        made = self._read(cycle, "gate", [film.candidate.video, film.baseline.video])
        if made is None:
            return None
        is_same = film.candidate.is_same and film.baseline.is_same
        return ShownPair(pair, made[0], made[1], is_same)

    def one(self, cycle: int, stage: str, name: str) -> Markup | None:
        made = self._read(cycle, stage, [name])
        return made[0] if made else None

    def _read(self, cycle: int, stage: str, names: Sequence[str]) -> list[Markup] | None:
        """All of these, or None where one is missing or there is no room for them."""
        try:
            files = [run_media(self._reader, self._run, cycle, stage, name) for name in names]
            size = sum(one.stat().st_size for one in files)
            if size > self._left:
                return None
            films = [_film(one) for one in files]
        except (BadInput, OSError):
            return None
        self._left -= size
        return films


def _film(file: Path) -> Markup:
    return element(
        "video",
        src=_data(file.read_bytes(), "video/mp4"),
        poster=_data(picture, "image/jpeg") if (picture := _last_frame(file)) else "",
        controls=True,
        loop=True,
        muted=True,
        playsinline=True,
        preload="metadata",
    )


def _data(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _last_frame(file: Path) -> bytes:
    """How the episode ended, as JPEG, for paper and until somebody plays it; empty where the film
    cannot be read."""
    import av

    try:
        with av.open(file) as container:
            stored = io.BytesIO()
            for last in deque(container.decode(video=0), maxlen=1):
                last.to_image().save(stored, "JPEG", quality=80)
    except (OSError, ValueError, av.FFmpegError):
        return b""
    return stored.getvalue()
