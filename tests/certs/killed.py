"""Kills `lefleet certs` before each of its changes to files in turn, and prints what is left.

A program of its own, because it forks: `python -m tests.certs.killed FOLDER`.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificate

from lefleet.certs.access import read_access
from lefleet.certs.authority import Authority
from lefleet.certs.x509 import PemPair, is_pair

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHANGES = {"os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.chmod"}
KILLED = 9


def prepare(folder: Path) -> None:
    Authority.create(folder, 3650, NOW)
    with Authority(folder, NOW) as authority:
        authority.issue("server", "gpu", ["localhost"], 365)
        authority.issue("robot", "old", [], 365)


def issue(folder: Path) -> None:
    with Authority(folder, NOW) as authority:
        authority.issue("robot", "new", [], 365)


def renew(folder: Path) -> None:
    with Authority(folder, NOW) as authority:
        authority.renew("gpu", [], 365)


def revoke(folder: Path) -> None:
    with Authority(folder, NOW) as authority:
        authority.revoke("old")


def is_killed_before(change: int, action: Callable[[Path], None], folder: Path) -> bool:
    """Whether the action had that many changes to make, so that it was killed."""
    if not (child := os.fork()):
        changes = count()

        def watch(event: str, arguments: tuple) -> None:
            is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & 0o103
            is_ours = bool(arguments) and str(folder) in str(arguments[0])
            if is_ours and (is_write or event in CHANGES) and next(changes) == change:
                os._exit(KILLED)

        os.umask(0)
        sys.addaudithook(watch)
        action(folder)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def left(folder: Path) -> dict:
    """What the next command finds, and which keys others could read before it."""
    keys = [path for path in folder.rglob("*") if path.name in ("ca.key", "key.pem")]
    open_keys = [str(path) for path in keys if path.stat().st_mode & 0o077]
    with Authority(folder, NOW) as authority:
        registry = authority.registry
    lists = [read_access(path) for path in folder.rglob("access.json")]
    return {
        "names": [one.name for one in registry.holders() if one.revoked is None],
        "issued": len(registry.certificates),
        "lists_differ": [str(one) for one in lists if one != registry.access()],
        "broken": [one.common_name for one in registry.holders() if not is_whole(folder, one)],
        "hidden": sorted({path.name for path in folder.glob(".*")} - {".lock", ".gitignore"}),
        "open_keys": open_keys,
    }


def is_whole(folder: Path, certificate) -> bool:
    own = folder / certificate.common_name
    pair = PemPair((own / "cert.pem").read_bytes(), (own / "key.pem").read_bytes())
    serial = load_pem_x509_certificate(pair.cert).serial_number
    is_newest = f"{serial:x}" == certificate.serial
    return is_newest and is_pair(pair) and (own / "ca.pem").is_file()


def main() -> None:
    base = Path(sys.argv[1])
    prepare(base / "before")
    found: dict[str, list] = {}
    for action in (issue, renew, revoke):
        results = found.setdefault(action.__name__, [])
        for change in count():
            folder = base / f"{action.__name__}-{change}"
            shutil.copytree(base / "before", folder)
            is_killed = is_killed_before(change, action, folder)
            results.append(left(folder))
            if not is_killed:
                break
    for change in count():
        folder = base / f"create-{change}"
        is_killed = is_killed_before(
            change, lambda folder: Authority.create(folder, 9, NOW), folder
        )
        if not (folder / "authority").exists():
            Authority.create(folder, 9, NOW)
        found.setdefault("create", []).append(left(folder))
        if not is_killed:
            break
    print(json.dumps(found))


if __name__ == "__main__":
    main()
