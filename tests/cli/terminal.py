"""lefleet in a terminal of its own, where Ctrl-C reaches every process."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

from tests.client.transport.waiting import LONG_S

ROWS, COLUMNS = 24, 120
CTRL_C = b"\x03"


class Terminal:
    """A command in a pseudo-terminal; a thread collects what it shows."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lefleet", *arguments],
            cwd=folder,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(slave)
        self._changed = threading.Condition()
        self._is_over = False
        self.shown = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str, timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: text in self.shown or self._is_over, timeout_s)
        assert text in self.shown, self.shown[-3000:]

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def end(self) -> int:
        """Its exit code; it must end by itself."""
        code = self._process.wait(LONG_S)
        self._reader.join(LONG_S)
        return code

    @property
    def processes(self) -> list[int]:
        """All that still run in this terminal."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z" and int(fields[3]) == self._process.pid:
                found.append(int(stat.parent.name))
        return found

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(LONG_S)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # all processes of the terminal have ended
                data = b""
            with self._changed:
                self.shown += data.decode(errors="replace")
                self._is_over = not data
                self._changed.notify_all()
            if not data:
                return
