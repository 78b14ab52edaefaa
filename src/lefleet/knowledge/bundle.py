"""The knowledge folder on disk: its lock, its pages, and the files that explain it."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from lefleet.durable import flush_folder, write_durably
from lefleet.errors import LeFleetError
from lefleet.knowledge.fences import Unreadable
from lefleet.knowledge.front_matter import PageType

FOLDER = "knowledge"
SCHEMA = "schema.json"
ABOUT = "KNOWLEDGE.md"
FOLDERS: dict[PageType, str] = {
    "task": "tasks",
    "policy": "policies",
    "experiment": "experiments",
}
_LOCK = ".lock"
LOCK_WAIT_S = 60.0
_PACKAGE = "lefleet.knowledge"


def shipped(name: str) -> bytes:
    """A file that comes with LeFleet."""
    return files(_PACKAGE).joinpath(name).read_bytes()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time changes the pages; a lock ends with its process."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise LeFleetError(
                        f"{folder} is locked: another process has been writing pages for "
                        f"{LOCK_WAIT_S:g} s.",
                        "The pages are written after the next cycle.",
                    ) from error
                time.sleep(0.05)
            else:
                break
        yield
    finally:
        os.close(lock)


def write_about(folder: Path) -> None:
    """The schema, for programs and for people, as this LeFleet has them."""
    for name in (SCHEMA, ABOUT):
        path, content = folder / name, shipped(name)
        if not path.is_file() or path.read_bytes() != content:
            write_durably(path, content)


def page_files(folder: Path) -> list[str]:
    """Every page, relative to the folder. Other folders in it belong to people."""
    found = [path for name in FOLDERS.values() for path in (folder / name).glob("*.md")]
    return sorted(path.relative_to(folder).as_posix() for path in found)


def read_text(path: Path) -> str | None:
    """A page as it stands, None where there is none; Unreadable where it is no text file."""
    if path.is_symlink():
        raise Unreadable("it is a link")
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise Unreadable("it is not UTF-8") from error
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from error


def replace(path: Path, before: str | None, text: str) -> bool:
    """Write `text` in one step, unless a person changed the file since it was read: then False."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    # A kill between link and unlink leaves two names of the page itself.
    partial.unlink(missing_ok=True)
    with partial.open("xb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    if read_text(path) != before:
        return False
    if before is None:
        try:
            os.link(partial, path)
        except FileExistsError:
            return False
        except OSError:  # A file system without hard links.
            partial.replace(path)
        partial.unlink(missing_ok=True)
    else:
        partial.replace(path)
    flush_folder(path.parent)
    return True
