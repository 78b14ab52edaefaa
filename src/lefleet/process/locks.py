"""Is a lock file held by somebody?"""

import fcntl
import os
from pathlib import Path


def is_held(file: Path) -> bool:
    """Whether a living process holds the lock on `file`; no file, no lock."""
    try:
        lock = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
