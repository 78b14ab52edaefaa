"""The folder of an authority: issues, renews and revokes, safe against a kill at any point.

    certs/authority/{ca.pem,ca.key,registry.json}    stays here
    certs/access.json                                the newest access list
    certs/server-NAME/{ca.pem,cert.pem,key.pem,access.json}
    certs/robot-NAME/, certs/operator-NAME/          the same without access.json

A certificate is first written to a hidden folder whose name ends with its serial number. Writing
the registry commits it; then its files are moved into place, and the access lists are written from
the registry. Every command first finishes what an interrupted one left: a hidden folder whose
serial number is in the registry is moved into place, any other is deleted.
"""

import fcntl
import os
import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

from lefleet.certs.registry import (
    CertificateRole,
    IssuedCertificate,
    Registry,
    checked_hosts,
    common_name,
    require_free,
    require_holder,
)
from lefleet.certs.x509 import PemPair, end_of, is_pair, make_authority, make_leaf, new_serial
from lefleet.errors import MISSING, BadInput, why_not_a_folder
from lefleet.records import decode, encode

_MAX_DAYS = 7300
_STAGED = ".new-"
_PUBLIC, _PRIVATE = 0o644, 0o600
_REGISTRY = "registry.json"
_ACCESS = "access.json"


class Authority:
    """Exclusive use of the folder of an authority; `notes` says what was repaired on entering.

    The lock is a flock on `.lock`, released when this process exits for whatever reason.
    """

    def __init__(self, folder: Path, now: datetime) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self._now = now.replace(microsecond=0)
        self._own = folder / "authority"

    @classmethod
    def create(cls, folder: Path, days: int, now: datetime) -> datetime:
        """A new authority; returns when it expires. It appears in one step, complete."""
        expires = now + _duration(days)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = _lock(folder)
        except OSError as error:
            raise _unusable(folder, error) from error
        try:
            if (folder / "authority").exists():
                raise BadInput(
                    f"dir: {folder} has an authority already.",
                    "Use it, or give another --dir. A new authority does not know the old one's "
                    "certificates.",
                )
            # Keys must not end up in a repository.
            _replace(folder / ".gitignore", b"*\n")
            pair = make_authority(now, expires)
            files = {"ca.key": pair.key, "ca.pem": pair.cert, _REGISTRY: encode(Registry())}
            _stage(folder / f"{_STAGED}authority", files).rename(folder / "authority")
            _replace(folder / _ACCESS, encode(Registry().access()))
        except OSError as error:
            raise _unusable(folder, error) from error
        finally:
            os.close(lock)
        return expires

    def __enter__(self) -> Self:
        problem = why_not_a_folder(self._own)
        if problem and problem != MISSING:
            raise BadInput(f"dir: {self._own} {problem}.", "Name another folder with --dir.")
        if problem:
            raise BadInput(
                f"dir: there is no authority in {self.folder}.",
                "Create one with: lefleet certs init, or name its folder with --dir.",
            )
        try:
            self._lock = _lock(self.folder)
        except OSError as error:
            raise _unusable(self.folder, error) from error
        try:
            self._load()
            self._finish()
        except OSError as error:
            os.close(self._lock)
            raise _unusable(self.folder, error) from error
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        os.close(self._lock)
        if isinstance(error, OSError):
            raise _unusable(self.folder, error) from error

    def issue(
        self, role: CertificateRole, name: str, hosts: Sequence[str], days: int
    ) -> IssuedCertificate:
        """A certificate for a new name, in a folder of its own."""
        require_free(self.registry, role, name, self._now)
        return self._make(role, name, checked_hosts(hosts) if role == "server" else (), days)

    def renew(self, name: str, hosts: Sequence[str], days: int) -> IssuedCertificate:
        """A new key and certificate for a name; the old certificate stays valid until it expires.

        Without `hosts`, those of the old certificate.
        """
        holder = require_holder(self.registry, name)
        if hosts and holder.role != "server":
            raise BadInput(f"host: {name} is a {holder.role}, which nobody connects to.")
        return self._make(holder.role, name, checked_hosts(hosts) if hosts else holder.hosts, days)

    def revoke(self, name: str) -> IssuedCertificate:
        """Take a name off the access lists."""
        require_holder(self.registry, name)
        self._commit(self.registry.revoking(name, self._now))
        self._finish()
        return next(one for one in self.registry.holders() if one.name == name)

    def servers(self) -> tuple[list[str], list[str]]:
        """Names of the servers' folders: those that are here, and those that were moved away."""
        holders = [one for one in self.registry.holders() if one.revoked is None]
        names = [one.common_name for one in holders if one.role == "server"]
        here = [name for name in names if (self.folder / name).is_dir()]
        return here, [name for name in names if name not in here]

    def _load(self) -> None:
        path = self._own / _REGISTRY
        self.registry: Registry = decode(path.read_bytes(), Registry, str(path))
        self._pair = PemPair(
            (self._own / "ca.pem").read_bytes(), (self._own / "ca.key").read_bytes()
        )
        try:
            is_whole = is_pair(self._pair)
            self.expires = end_of(self._pair.cert)
        except ValueError:
            is_whole = False
        if not is_whole:
            raise BadInput(
                f"dir: ca.key and ca.pem in {self._own} are no pair of a key and its certificate.",
                "Restore the folder from a backup, or create an authority with another --dir.",
            )

    def _make(
        self, role: CertificateRole, name: str, hosts: tuple[str, ...], days: int
    ) -> IssuedCertificate:
        if self.expires <= self._now:
            raise BadInput(
                f"dir: the authority in {self.folder} expired on {self.expires:%Y-%m-%d}.",
                "Create a new one with another --dir, and new certificates for all.",
            )
        # TLS refuses a certificate that outlives its authority's.
        expires = min(self._now + _duration(days), self.expires)
        serial = new_serial()
        pair = make_leaf(
            self._pair,
            common_name(role, name),
            hosts,
            may_listen=role == "server",
            serial=serial,
            now=self._now,
            expires=expires,
        )
        certificate = IssuedCertificate(
            role=role,
            name=name,
            hosts=hosts,
            serial=f"{serial:x}",
            issued=self._now,
            expires=expires,
        )
        files = {"key.pem": pair.key, "ca.pem": self._pair.cert, "cert.pem": pair.cert}
        _stage(self.folder / _staged_name(certificate), files)
        self._commit(self.registry.adding(certificate))
        self._finish(is_new=True)
        return certificate

    def _commit(self, registry: Registry) -> None:
        _replace(self._own / _REGISTRY, encode(registry), _PRIVATE)
        self.registry = registry

    def _finish(self, *, is_new: bool = False) -> None:
        """Move committed certificates into place, and write the access lists of the registry."""
        recorded = {_staged_name(one): one for one in self.registry.certificates}
        for staged in self.folder.glob(f"{_STAGED}*"):
            if (certificate := recorded.get(staged.name)) is None:
                shutil.rmtree(staged)
                self.notes.append(f"Removed {staged.name}, which an interrupted command left.")
                continue
            target = self.folder / certificate.common_name
            target.mkdir(mode=0o700, exist_ok=True)
            for file in staged.iterdir():
                file.replace(target / file.name)
            staged.rmdir()
            if not is_new:
                self.notes.append(f"Finished {target.name}, which an interrupted command left.")
        access = encode(self.registry.access())
        servers = [path for path in self.folder.glob("server-*") if path.is_dir()]
        for folder in (self.folder, *servers):
            path = folder / _ACCESS
            if not path.is_file() or path.read_bytes() != access:
                _replace(path, access)


def _staged_name(certificate: IssuedCertificate) -> str:
    return f"{_STAGED}{certificate.common_name}.{certificate.serial}"


def _duration(days: int) -> timedelta:
    if not 1 <= days <= _MAX_DAYS:
        raise BadInput(f"days: {days} is not between 1 and {_MAX_DAYS}.")
    return timedelta(days=days)


def _lock(folder: Path) -> int:
    """Waits for another command in the same folder, which takes milliseconds."""
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _stage(folder: Path, files: dict[str, bytes]) -> Path:
    """A new folder with these files; keys are never readable for others, not even at first."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    for name, data in files.items():
        _write(folder / name, data, _PUBLIC if name in ("ca.pem", "cert.pem") else _PRIVATE)
    _sync(folder)
    return folder


def _replace(path: Path, data: bytes, mode: int = _PUBLIC) -> None:
    """All of `data` under `path`, or what was there before."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    _write(partial, data, mode)
    partial.replace(path)
    _sync(path.parent)


def _write(path: Path, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _unusable(folder: Path, error: OSError) -> BadInput:
    return BadInput(
        f"dir: {error.filename or folder} cannot be used: {error.strerror or error}.",
        "Check its permissions, or give another --dir.",
    )
