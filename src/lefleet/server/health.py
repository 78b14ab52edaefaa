"""Three pages over HTTP: /healthz, /readyz and /metrics."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lefleet.errors import BadInput

_SLOW_READER_S = 5.0
_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"

Why = Callable[[], str]
"""Why the server is not ready; empty when it is."""


class HealthServer:
    """Answers from the start of the process, so that warming up can be seen.

    The thread `health` accepts, and each request has a short-lived thread of its own; both
    callables are called there. With port 0 any free one is taken.
    """

    def __init__(
        self, host: str, port: int, why_not_ready: Why, metrics: Callable[[], bytes]
    ) -> None:
        handler = type("Handler", (_Handler,), {"pages": _Pages(why_not_ready, metrics)})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise BadInput(
                f"http_port: {host}:{port} cannot be listened on: {error.strerror}.",
                "Choose another port or host.",
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="health", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> "HealthServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Pages:
    def __init__(self, why_not_ready: Why, metrics: Callable[[], bytes]) -> None:
        self._why_not_ready = why_not_ready
        self._metrics = metrics

    def at(self, path: str) -> tuple[int, str, bytes]:
        """Status, type and text of a page."""
        match path:
            case "/healthz":
                return 200, _TEXT, b"ok\n"
            case "/readyz":
                why = self._why_not_ready()
                return (503, _TEXT, f"{why}\n".encode()) if why else (200, _TEXT, b"ready\n")
            case "/metrics":
                return 200, _METRICS, self._metrics()
            case _:
                return 404, _TEXT, b"there are /healthz, /readyz and /metrics\n"


class _Handler(BaseHTTPRequestHandler):
    pages: _Pages
    timeout = _SLOW_READER_S
    server_version = "lefleet"
    sys_version = ""

    def do_GET(self) -> None:
        status, kind, text = self.pages.at(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Scrapes come every few seconds: nobody wants a line for each."""
