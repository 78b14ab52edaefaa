"""A dashboard in a process of its own, as `lefleet dash` starts it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from tests.cli.child import Child

_READY = re.compile(r"Dashboard of .*: (http://\S+)")


@contextmanager
def dashboard(workdir: Path, *arguments: str, folder: Path) -> Iterator[tuple[Child, str]]:
    """A running one, started in `folder`, and its address."""
    with child("dash", "--workdir", str(workdir), *arguments, folder=folder) as started:
        started.wait_for(lambda one: any(_READY.match(line) for line in one.out))
        found = next(filter(None, map(_READY.match, started.out)))
        yield started, found[1]


def child(*arguments: str, folder: Path) -> Child:
    """A command that does not know of pytest: NiceGUI behaves differently under it."""
    hidden = [name for name in os.environ if name.startswith(("PYTEST", "NICEGUI"))]
    with patch.dict(os.environ):
        for name in hidden:
            del os.environ[name]
        return Child(*arguments, folder=folder)
