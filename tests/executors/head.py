"""The HTTP interface of a cluster's head, which says what a test wants it to say."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Reply(NamedTuple):
    """One answer."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - nobody writes to it


NO_JOB = Reply(404, b"Job job does not exist")


class Head(ThreadingHTTPServer):
    """`asked` answers questions, `told` whoever wants something done. Remembers what was wanted,
    and the tokens."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked, self.told = NO_JOB, Reply(200, b"{}")
        self.wanted: list[str] = []
        self.tokens: list[str | None] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self._say(self.server.asked)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.server.wanted.append(self.path)
        self._say(self.server.told)

    def _say(self, reply: Reply):
        self.server.tokens.append(self.headers.get("Authorization"))
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@contextmanager
def served() -> Iterator[Head]:
    with Head() as server:
        thread = threading.Thread(target=server.serve_forever, name="head")
        thread.start()
        yield server
        server.shutdown()
        thread.join()
