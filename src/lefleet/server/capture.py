"""The last requests on disk, with their answers: a ring that `replay` reads."""

import fcntl
import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from lefleet.errors import BadInput, why_not_a_folder
from lefleet.policy.settings import ContractOverride, ModelSettings, RtcSettings
from lefleet.records.border import Strict
from lefleet.server.manifest import CaptureSettings, Manifest
from lefleet.server.observers import BackgroundWriter
from lefleet_client import wire
from lefleet_client.wire.bodies import Body
from lefleet_client.wire.limits import MIB, U64, BodyLimits

_ROOM = 16
"""Captures that wait to be written; each holds an observation, which may be megabytes."""
_FILE = re.compile(r"(\d{10})\.capture")
_PART = ".part"
_LOCK = "ring.lock"
_LIMITS = BodyLimits(
    wire.OBSERVATION.limits.max_bytes + wire.CHUNK.limits.max_bytes + MIB,
    max_items=64 * 1024,
    max_text=64 * 1024,
)
"""Of one file: an observation, its chunk, and the names of all columns."""


class CapturedModel(Strict, frozen=True, kw_only=True):
    """What of a manifest decides which chunk is computed: enough to load the policy again."""

    model: ModelSettings
    contract: ContractOverride | None = None
    trust_order: bool = False
    rtc: RtcSettings = RtcSettings()

    @classmethod
    def of(cls, manifest: Manifest) -> "CapturedModel":
        """Folders are kept so that they are found from wherever captures are replayed."""
        model = manifest.model
        return cls(
            model=msgspec.structs.replace(
                model, repo_or_path=_absolute(model.repo_or_path), peft=_absolute(model.peft)
            ),
            contract=manifest.contract,
            trust_order=manifest.trust_order,
            rtc=manifest.rtc,
        )


class Captured(Strict, frozen=True, kw_only=True):
    """One request and its answer; bytes are as they travelled."""

    client_id: str
    session_id: str
    robot_type: str
    default_task: str
    """Of the server; the robot's own task is in the observation."""
    digest: str
    """Of the checkpoint that answered."""
    seed: U64
    """The one that was used, wherever it came from."""
    header: bytes
    observation: bytes
    chunk: bytes


class Capture(Strict, frozen=True, kw_only=True):
    """One file of the ring."""

    format: Literal[1] = 1
    policy: CapturedModel
    request: Captured


_CAPTURE: Body[Capture] = Body("it is not a capture", Capture, _LIMITS)


class _Kept(NamedTuple):
    number: int
    size: int


class CaptureRing:
    """Keeps the newest requests in a folder of its own, over restarts.

    `record` may be called on any thread and returns at once. The thread `capture` writes, each file
    under another name first, so that a reader sees whole files only, and deletes the oldest before
    that, so that the limits hold all the time. When it cannot keep up, captures are skipped and
    counted.
    """

    def __init__(self, settings: CaptureSettings, policy: CapturedModel) -> None:
        self._folder = Path(settings.dir).expanduser()
        self._limit = settings.max
        self._limit_bytes = settings.max_mb * 1_000_000
        self._policy = policy
        self._lock = _claim(self._folder)
        self._kept = deque(
            _Kept(number, path.stat().st_size) for number, path in _captures(self._folder)
        )
        self._bytes = sum(one.size for one in self._kept)
        self._next = self._kept[-1].number + 1 if self._kept else 0
        self._encoder = msgspec.msgpack.Encoder()
        self._writer = BackgroundWriter("capture", self._write, _ROOM)

    @property
    def skipped(self) -> int:
        """Captures that were lost."""
        return self._writer.skipped

    def record(self, captured: Captured) -> None:
        self._writer.offer(captured)

    def close(self) -> None:
        self._writer.close()
        os.close(self._lock)

    def __enter__(self) -> "CaptureRing":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, captured: Captured) -> None:
        content = self._encoder.encode(Capture(policy=self._policy, request=captured))
        if len(content) > self._limit_bytes:
            raise ValueError(
                f"capture.max_mb: one request has {len(content)} bytes, which is more than all may "
                "have together"
            )
        self._make_room(len(content))
        path = _path(self._folder, self._next)
        part = path.with_suffix(_PART)
        part.write_bytes(content)
        part.rename(path)
        self._kept.append(_Kept(self._next, len(content)))
        self._bytes += len(content)
        self._next += 1

    def _make_room(self, size: int) -> None:
        while self._kept and (
            len(self._kept) >= self._limit or self._bytes + size > self._limit_bytes
        ):
            _path(self._folder, self._kept[0].number).unlink(missing_ok=True)
            self._bytes -= self._kept.popleft().size


def read_captures(folder: Path) -> Iterator[tuple[str, Capture]]:
    """Name and content of each capture in the folder, oldest first."""
    if problem := why_not_a_folder(folder):
        raise BadInput(f"{folder} {problem}.", "Name the capture.dir of a server.")
    for _, path in _captures(folder):
        try:
            with path.open("rb") as file:
                content = file.read(_LIMITS.max_bytes + 1)
            yield path.stem, _CAPTURE.decode(content)
        except FileNotFoundError:
            continue  # The ring of a running server has moved on.
        except OSError as error:
            raise BadInput(f"{path}: it cannot be read: {error.strerror}.") from error
        except wire.WireError as error:
            raise BadInput(f"{path}: {error}.") from error


def _absolute(place: str) -> str:
    """A folder from the root; a hub id as it is."""
    folder = Path(place).expanduser()
    return str(folder.resolve()) if place and folder.is_dir() else place


def _claim(folder: Path) -> int:
    """The folder's lock: a server must not delete what is not its own."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = [entry.name for entry in folder.iterdir() if not _is_ours(entry)]
        if foreign:
            raise BadInput(
                f"capture.dir: {folder} holds something else ({min(foreign)}).",
                "Choose a new folder.",
            )
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise BadInput(
            f"capture.dir: {folder} cannot be used: {error.strerror}.", "Choose another folder."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise BadInput(
            f"capture.dir: another server captures into {folder}.", "Choose another folder."
        ) from None
    for part in folder.glob(f"*{_PART}"):
        part.unlink()
    return lock


def _is_ours(path: Path) -> bool:
    name = path.name.removesuffix(_PART) + ".capture" if path.suffix == _PART else path.name
    return name == _LOCK or _FILE.fullmatch(name) is not None


def _captures(folder: Path) -> list[tuple[int, Path]]:
    found = [(_FILE.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in found if match and path.is_file())


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:010}.capture"
