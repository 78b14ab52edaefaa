"""A run that tells people, a server that they listen with, and a command of theirs."""

import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from lefleet.ledger import Ledger, open_ledger
from lefleet.ledger.notifications import NotificationRow
from lefleet.notify import notify_new
from lefleet.notify.sender import LOCK
from lefleet.process.errand import started
from lefleet.records import NotifyPlan
from tests.permissive import VALUE, VARIABLE

DEADLINE_S = 60.0


def wait_for(condition, what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def any_program(monkeypatch):
    """Programs of these tests are in no list."""
    monkeypatch.setenv(VARIABLE, VALUE)


@dataclass
class Receiver:
    """A webhook's server. What it answers with can be changed at any time."""

    url: str
    bodies: list[dict] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Of the next answers; 204 where there is none left."""
    reply: dict[str, str] = field(default_factory=dict)
    """Further headers of an answer."""
    text: str = ""
    """Reason and body of an answer."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Answers wait for it."""

    @property
    def ids(self) -> list[str]:
        return [body["id"] for body in self.bodies]


@pytest.fixture
def receiver():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers["Content-Length"])
            found.bodies.append(json.loads(self.rfile.read(length)))
            found.paths.append(self.path)
            found.headers.append(dict(self.headers))
            found.gate.wait(DEADLINE_S)
            self.send_response(found.statuses.pop(0) if found.statuses else 204, found.text or None)
            for name, value in found.reply.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(found.text.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Receiver(f"http://127.0.0.1:{server.server_port}")
    found.gate.set()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.gate.set()
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass
class Told:
    """One run and its messages."""

    ledger: Ledger
    workdir: Path
    plan: NotifyPlan
    run: str = "r"

    @property
    def folder(self) -> Path:
        return self.workdir / self.run

    @property
    def rows(self) -> list[NotificationRow]:
        return self.ledger.notifications.all(self.run)

    @property
    def states(self) -> list[str]:
        return [row.state for row in self.rows]

    def event(self, kind: str, **data) -> None:
        self.ledger.add_event(self.run, kind, data)

    def notify(self) -> None:
        notify_new(self.ledger, self.workdir, self.run, self.plan)

    @property
    def sender(self) -> int:
        """Process id of the newest sender."""
        return started[self.folder / LOCK].pid

    def settled(self) -> None:
        wait_for(lambda: "pending" not in self.states, "messages to be sent or given up")

    def exited(self) -> None:
        started[self.folder / LOCK].wait(DEADLINE_S)


@pytest.fixture
def told(tmp_path):
    """Makes a run with a plan."""
    made = []

    def make(**plan) -> Told:
        workdir = tmp_path / "runs"
        ledger = open_ledger(workdir)
        one = Told(ledger, workdir, NotifyPlan(**plan))
        ledger.create_run("r", {"name": "r", "notify": msgspec.to_builtins(one.plan)})
        one.folder.mkdir()
        made.append(one)
        return one

    yield make
    for one in made:
        one.ledger.close()
        child = started.pop(one.folder / LOCK, None)
        if child is not None and child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()


@pytest.fixture
def script(tmp_path):
    """Makes a program of the user's in Python."""

    def write(code: str) -> str:
        path = tmp_path / "tell-me"
        path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{code}\n")
        path.chmod(0o755)
        return str(path)

    return write
