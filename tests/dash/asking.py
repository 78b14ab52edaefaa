"""Requests to a guard as the server would pass them on, with every header as the test wants it."""

import asyncio
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from lefleet.dash.guard import Guard
from lefleet.dash.hosts import AllowedHosts, allowed_hosts
from lefleet.dash.tokens import TokenFile

HOST = "127.0.0.1:8765"
ORIGIN = f"http://{HOST}"


class App:
    """Behind the guard: remembers what reached it, and answers with the name of the person."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.messages: list[dict[str, Any]] = []
        self._headers = list(headers)

    async def __call__(self, scope, receive, send) -> None:
        self.scopes.append(scope)
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (message := await receive())["type"] != "websocket.disconnect":
                self.messages.append(message)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send({"type": "http.response.body", "body": scope["lefleet.person"].name.encode()})


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: str = ""

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def __getitem__(self, name: str) -> str:
        (value,) = self.all(name)
        return value


def guard(
    workdir,
    app,
    *,
    bound="127.0.0.1",
    named=(),
    users=frozenset(),
    hosts: AllowedHosts | None = None,
) -> Guard:
    """One where everybody needs a token, unless the test says which users do not."""
    hosts = hosts or allowed_hosts(ip_address(bound), bound, named)
    return Guard(app, TokenFile(workdir), hosts, users=users)


def scope_of(kind, method, path, headers, client=("127.0.0.1", 50000)) -> dict[str, Any]:
    path, _, query = path.partition("?")
    return {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(key.encode(), value.encode("latin-1")) for key, value in headers],
        "client": client,
        "server": ("127.0.0.1", 8765),
    }


def ask(to: Guard, path="/", *headers, method="GET", host=HOST, body=(), client=None) -> Answer:
    """One request. `host` None: without the header. `body`: in these parts."""
    return asyncio.run(
        asked(to, path, *headers, method=method, host=host, body=body, client=client)
    )


async def asked(
    to: Guard, path="/", *headers, method="GET", host=HOST, body=(), client=None
) -> Answer:
    given = [*([("host", host)] if host is not None else []), *headers]
    scope = scope_of("http", method, path, given, client or ("127.0.0.1", 50000))
    parts = [*body] or [b""]
    sent: list[dict[str, Any]] = []

    async def receive():
        if parts:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await to(scope, receive, send)
    start, *rest = sent
    return Answer(
        start["status"],
        [(key.decode(), value.decode("latin-1")) for key, value in start["headers"]],
        b"".join(one.get("body", b"") for one in rest).decode(),
    )


class Socket:
    """A websocket to a guard, in a task of the running loop."""

    def __init__(self, to: Guard, *headers, host=HOST, path="/_nicegui_ws/socket.io/") -> None:
        self.sent: list[dict[str, Any]] = []
        self.to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.to_app.put_nowait({"type": "websocket.connect"})
        scope = scope_of("websocket", "", path, [("host", host), *headers])
        del scope["method"]
        self.task = asyncio.create_task(to(scope, self.to_app.get, self._send))

    async def _send(self, message) -> None:
        self.sent.append(message)
        if message["type"] == "websocket.close":
            self.to_app.put_nowait({"type": "websocket.disconnect", "code": 1008})

    def say(self, text: str) -> None:
        self.to_app.put_nowait({"type": "websocket.receive", "text": text})

    async def end(self) -> list[str]:
        """Types of what was sent, when it has ended."""
        await asyncio.wait_for(self.task, 30)
        return [one["type"] for one in self.sent]
