"""Where each frame's action came from: provenance.jsonl beside a dataset, one line per frame.

`session_id` and `seq_id` are those of the server's audit lines, `episode_index` and `frame_index`
those of the dataset.
"""

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import BinaryIO

import msgspec

from lefleet_client.stream import Executed

FILE = "provenance.jsonl"
_REMEMBERED = 100_000
"""Actions that a strategy may keep back before it adds their frames: nearly an hour at 30 Hz."""

_EPISODE = re.compile(rb'{"episode_index":(\d{1,18}),')

type ExecutedSource = Callable[[], Executed | None]


class FrameProvenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The action of one frame. Without a session it was a fallback, or a policy in the robot's own
    process or a person acted."""

    episode_index: int
    frame_index: int
    session_id: str = ""
    seq_id: int | None = None
    """The request, and with it the observation, that the action answers."""
    episode_id: int | None = None
    """Of the session."""
    step: int | None = None
    """Position in the chunk."""
    server: str = ""
    digest: str = ""
    """Of the checkpoint."""
    age_s: float | None = None
    """From the observation to the execution."""
    is_fallback: bool = False


class FrameSources:
    """What was executed for each frame of the episode that is being recorded.

    One control loop calls everything. Frames usually are added in the tick of their action. A
    strategy that keeps frames back adds many of them in one tick: they belong to the latest
    actions, in order, if every action was reported by `acted`.
    """

    def __init__(self) -> None:
        self.executed: ExecutedSource = lambda: None
        self._acted: deque[Executed | None] = deque(maxlen=_REMEMBERED)
        self._are_actions_reported = False
        self._waiting: list[bool] = []
        self._frames: list[Executed | None] = []

    def acted(self) -> None:
        self._are_actions_reported = True
        self._assign()
        self._acted.append(self.executed())

    def add_frame(self, *, is_intervention: bool) -> None:
        if self._are_actions_reported:
            self._waiting.append(is_intervention)
        else:
            self._frames.append(None if is_intervention else self.executed())

    def clear(self) -> None:
        self._waiting.clear()
        self._frames.clear()

    def rows(self, episode_index: int) -> list[FrameProvenance]:
        self._assign()
        return [_row(episode_index, *numbered) for numbered in enumerate(self._frames)]

    def _assign(self) -> None:
        """The frames that were added since the last action belong to the newest actions."""
        count = len(self._waiting)
        newest = list(self._acted)[-count:] if count else []
        known = [None] * (count - len(newest)) + newest
        for is_intervention, executed in zip(self._waiting, known, strict=True):
            self._frames.append(None if is_intervention else executed)
        self._waiting.clear()


def encode_rows(rows: Sequence[FrameProvenance]) -> list[bytes]:
    encoder = msgspec.json.Encoder()
    return [encoder.encode(row) for row in rows]


def read_provenance(root: Path, episode: int, most: int | None = None) -> list[FrameProvenance]:
    """Of an episode's frames, in order, at most so many; none if it was recorded without
    provenance.

    Episodes follow each other in the file, so only the part of this one is read.
    """
    decoder = msgspec.json.Decoder(FrameProvenance)
    try:
        with (root / FILE).open("rb") as file:
            file.seek(_begin_of(file, episode))
            mine = takewhile(lambda line: _episode_of(line) == episode, file)
            lines = list(islice(mine, most))
    except FileNotFoundError:
        return []
    return [decoder.decode(line) for line in lines]


def _begin_of(file: BinaryIO, episode: int) -> int:
    """Where the first line of `episode`, or of a later one, begins: by bisection."""
    low, high = 0, file.seek(0, os.SEEK_END)
    while low < high:
        middle = (low + high) // 2
        file.seek(middle)
        if middle:
            file.seek(middle - 1)
            file.readline()  # The rest of the line before; nothing of it if one begins here.
        start = file.tell()
        line = file.readline()
        if start >= high or not line or _episode_of(line) >= episode:
            high = middle
        else:
            low = start + len(line)
    return low


def _episode_of(line: bytes) -> int:
    """A line that a kill cut short is behind all episodes."""
    found = _EPISODE.match(line) if line.endswith(b"\n") else None
    return int(found[1]) if found else sys.maxsize


def _row(episode_index: int, frame_index: int, executed: Executed | None) -> FrameProvenance:
    if executed is None or (origin := executed.origin) is None:
        return FrameProvenance(
            episode_index=episode_index,
            frame_index=frame_index,
            is_fallback=executed is not None,
        )
    return FrameProvenance(
        episode_index=episode_index,
        frame_index=frame_index,
        session_id=origin.session_id,
        seq_id=origin.seq_id,
        episode_id=origin.episode_id,
        step=executed.step,
        server=origin.server,
        digest=origin.digest,
        age_s=executed.age_s,
    )
