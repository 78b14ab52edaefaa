"""The last requests on disk, with their answers: a ring that `replay` reads."""

import fcntl
import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from lefleet.errors import BadInput
from lefleet.policy.settings import ContractOverride, ModelSettings, RtcSettings
from lefleet.records.border import Strict, as_bad_input
from lefleet.server.background import Background
from lefleet.server.manifest import Manifest

_ROOM = 16
"""Captures that wait to be written; each holds an observation, which may be megabytes."""
_FILE = re.compile(r"(\d{10})\.capture")
_PART = ".part"
_LOCK = "ring.lock"


class CapturedModel(Strict, frozen=True, kw_only=True):
    """What of a manifest decides which chunk is computed: enough to load the policy again."""

    model: ModelSettings
    contract: ContractOverride | None = None
    trust_order: bool = False
    rtc: RtcSettings = RtcSettings()

    @classmethod
    def of(cls, manifest: Manifest) -> "CapturedModel":
        return cls(
            model=manifest.model,
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
    seed: int
    """The one that was used, wherever it came from."""
    header: bytes
    observation: bytes
    chunk: bytes


class Capture(Strict, frozen=True, kw_only=True):
    """One file of the ring."""

    format: Literal[1] = 1
    policy: CapturedModel
    request: Captured


class CaptureRing:
    """Keeps the newest `limit` requests in a folder of its own, over restarts.

    `record` may be called on any thread and returns at once. The thread `capture` writes, each file
    under another name first, so that a reader sees whole files only. When it cannot keep up,
    captures are skipped and counted.
    """

    def __init__(self, folder: Path, limit: int, policy: CapturedModel) -> None:
        self._folder = folder
        self._limit = limit
        self._policy = policy
        self._lock = _claim(folder)
        self._numbers = deque(number for number, _ in _captures(folder))
        self._encoder = msgspec.msgpack.Encoder()
        self._writer = Background("capture", self._write, _ROOM)

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
        number = self._numbers[-1] + 1 if self._numbers else 0
        path = _path(self._folder, number)
        part = path.with_suffix(_PART)
        part.write_bytes(self._encoder.encode(Capture(policy=self._policy, request=captured)))
        part.rename(path)
        self._numbers.append(number)
        while len(self._numbers) > self._limit:
            _path(self._folder, self._numbers.popleft()).unlink(missing_ok=True)


def read_captures(folder: Path) -> Iterator[tuple[str, Capture]]:
    """Name and content of each capture in the folder, oldest first."""
    if not folder.is_dir():
        raise BadInput(f"{folder}: there is no such folder.", "Name the capture.dir of a server.")
    decoder = msgspec.msgpack.Decoder(Capture)
    for _, path in _captures(folder):
        try:
            yield path.stem, decoder.decode(path.read_bytes())
        except FileNotFoundError:
            continue  # The ring of a running server has moved on.
        except msgspec.DecodeError as error:
            raise as_bad_input(error, str(path)) from error


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
    return sorted((int(match[1]), path) for match, path in found if match)


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:010}.capture"
