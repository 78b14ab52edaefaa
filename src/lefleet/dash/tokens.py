"""Named tokens of people who are not on this machine, and what each may do.

`<workdir>/.dash/tokens.json` has a SHA-256 of each token, never the token itself. A slow hash for
passwords would gain nothing: a token is 32 random bytes, which nobody guesses however fast the hash
is, and it would cost every request.
"""

import fcntl
import hashlib
import os
import secrets
import shlex
import stat
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import msgspec

from lefleet.actions.people import RIGHTS, Person, Right, token_holder
from lefleet.dash.address import FOLDER, private_folder
from lefleet.errors import BadInput, LeFleetError
from lefleet.queries.words import workdir_flag
from lefleet.records import decode, encode
from lefleet.records.border import Strict

PREFIX = "lefleet_"
"""In front of every token, so that a person or a secret scanner knows what was found."""
FILE = "tokens.json"
_LOCK = "tokens.lock"
_LONGEST_NAME = 64
_LONGEST_TOKEN = 200
_MOST = 200
"""Live tokens; each may have sessions."""


class AccessToken(Strict, frozen=True, kw_only=True):
    """One token, without the token itself."""

    name: str
    may: tuple[Right, ...] = ()
    created_at: datetime
    revoked_at: datetime | None = None
    sha256: str

    @property
    def person(self) -> Person:
        """Whoever has it."""
        return token_holder(self.name, self.may)


class _TokenList(Strict, frozen=True, kw_only=True):
    version: Literal[1] = 1
    tokens: tuple[AccessToken, ...] = ()


def add(workdir: Path, name: str, may: tuple[Right, ...] = ()) -> str:
    """A new token for `name`. It is returned once and cannot be looked up later."""
    _require_form(name)
    text = PREFIX + secrets.token_urlsafe(32)
    with _changing(workdir) as folder:
        before = _read(folder / FILE).tokens
        live = [one for one in before if one.revoked_at is None]
        _require_free(name, live, workdir_flag(workdir))
        if len(live) >= _MOST:
            raise BadInput(
                f"name: there are {_MOST} tokens already.", "Revoke one that nobody needs."
            )
        made = AccessToken(
            name=name,
            may=tuple(right for right in RIGHTS if right in may),
            created_at=datetime.now(UTC),
            sha256=_digest(text),
        )
        _write(folder / FILE, _TokenList(tokens=(*before, made)))
    return text


def revoke(workdir: Path, name: str) -> AccessToken:
    """End the live token `name`. A running dashboard ends its sessions within seconds."""
    live = {one.name: one for one in listed(workdir) if one.revoked_at is None}
    if name not in live:
        near = get_close_matches(name, live, 1)
        see = f"See: lefleet dash token list{workdir_flag(workdir)}"
        meant = f"Did you mean {near[0]}?" if near else see
        raise BadInput(f"name: there is no live token {name!r}.", meant)
    with _changing(workdir) as folder:
        now = datetime.now(UTC)
        ended = msgspec.structs.replace(live[name], revoked_at=now)
        tokens = _read(folder / FILE).tokens
        changed = tuple(ended if one.sha256 == ended.sha256 else one for one in tokens)
        _write(folder / FILE, _TokenList(tokens=changed))
    return ended


def listed(workdir: Path) -> tuple[AccessToken, ...]:
    """All tokens, also revoked ones, the oldest first."""
    return _read(workdir / FOLDER / FILE).tokens


class TokenFile:
    """The live tokens of a work folder, read again when the file has changed.

    A file that cannot be read, or that somebody else could have written, lets nobody in. Any thread
    may call; one lock guards what was read.
    """

    def __init__(self, workdir: Path) -> None:
        self._path = workdir / FOLDER / FILE
        self._lock = threading.Lock()
        self._known: tuple[int, int, int] | None = None
        self._live: dict[str, AccessToken] = {}
        self.problem = ""
        """Why the file lets nobody in; empty where it is sound."""

    def find(self, text: str) -> AccessToken | None:
        """The live token with this text. Compares with every one, however early one fits."""
        given = _digest(text) if len(text) <= _LONGEST_TOKEN else ""
        found = None
        for one in self._current().values():
            if secrets.compare_digest(one.sha256, given):
                found = one
        return found

    def is_live(self, token: AccessToken) -> bool:
        """Whether it was not revoked since."""
        return token.sha256 in self._current()

    def has_any(self) -> bool:
        """Whether anybody could log in."""
        return bool(self._current())

    def _current(self) -> dict[str, AccessToken]:
        try:
            now = self._path.stat()
            state = (now.st_ino, now.st_mtime_ns, now.st_size)
        except OSError:
            state = None
        with self._lock:
            if state != self._known:
                self._known = state
                self._live, self.problem = {}, ""
                try:
                    tokens = _read(self._path).tokens
                    self._live = {one.sha256: one for one in tokens if one.revoked_at is None}
                except LeFleetError as error:
                    self.problem = str(error)
            return self._live


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _require_form(name: str) -> None:
    def refuse(problem: str) -> BadInput:
        return BadInput(f"name: {problem}.", "Use a person's name, such as anna.")

    if not name or len(name) > _LONGEST_NAME:
        raise refuse(f"{len(name)} characters; between 1 and {_LONGEST_NAME} are possible")
    if not name.isprintable():
        raise refuse(f"{name!r} has characters that cannot be printed")
    if name != name.strip():
        raise refuse(f"{name!r} begins or ends with a space")
    folded = _folded(name)
    if folded == "timeout" or "(token)" in folded:
        raise refuse(f"{name!r} means something else in records")


def _require_free(name: str, live: list[AccessToken], flag: str) -> None:
    for one in live:
        if _folded(one.name) == _folded(name):
            revoke = f"lefleet dash token revoke {shlex.quote(one.name)}{flag}"
            raise BadInput(
                f"name: {one.name} has a token already.", f"Choose another name, or first: {revoke}"
            )


def _folded(name: str) -> str:
    """Equal for names that look alike but for their case."""
    return unicodedata.normalize("NFKC", name).casefold()


@contextmanager
def _changing(workdir: Path) -> Iterator[Path]:
    """One process at a time; the folder."""
    folder = private_folder(workdir)
    try:
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    except OSError as error:
        raise LeFleetError(
            f"{folder / FILE} cannot be written: {error.strerror}.", "Check the disk."
        ) from error


def _read(path: Path) -> _TokenList:
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            data = file.read()
    except FileNotFoundError:
        return _TokenList()
    except OSError as error:
        raise LeFleetError(
            f"{path} cannot be read: {error.strerror}.", "Check its permissions."
        ) from error
    others = stat.S_IWGRP | stat.S_IWOTH
    if about.st_uid not in (os.geteuid(), 0) or about.st_mode & others:
        raise LeFleetError(
            f"{path}: others than you can write it, so its tokens are not trusted.",
            f"See that they are right, then: chmod 600 {path}",
        )
    found: _TokenList = decode(data, _TokenList, str(path))
    return found


def _write(path: Path, tokens: _TokenList) -> None:
    """All of it or nothing, on disk when this returns; readable by this user only."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with open(partial, "xb", opener=_private) as file:
        file.write(encode(tokens))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    opened = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
