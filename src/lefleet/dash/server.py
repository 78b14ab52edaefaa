"""The dashboard's process: guard, API and pages together, one for each work folder, until a signal.

One worker: open pages are in its memory. State is in the ledger and the folders, so that a restart
loses nothing but sessions, and open pages load again by themselves.
"""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from lefleet.dash.address import announce, only_one, private_folder
from lefleet.dash.context import Context
from lefleet.dash.guard import Guard, own_users
from lefleet.dash.hosts import IpAddress, allowed_hosts
from lefleet.dash.peers import can_tell
from lefleet.dash.tokens import TokenFile
from lefleet.errors import BadInput, LeFleetError
from lefleet.queries.words import workdir_flag

if TYPE_CHECKING:
    from fastapi import FastAPI

_CLOSE_S = 2
"""How long requests in flight may take after a signal."""
_ACTION_S = 10.0
"""How long an action that has begun may take after that."""
_MOST_HEADERS = 64 * 2**10
_MOST_MESSAGE = 2**20
_MOST_CONNECTIONS = 500


@dataclass(frozen=True)
class Listening:
    """Where a dashboard can be reached, and by whom."""

    url: str
    """From this machine."""
    elsewhere: str
    """From other machines; empty on loopback."""
    needs_token: bool
    knows_users: bool
    """Whether other users of this machine are told apart; it matters without tokens."""


def serve(
    context: Context,
    host: str,
    port: int,
    named: Sequence[str],
    on_ready: Callable[[Listening], None],
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP. `named` are names that a proxy in front of it has:
    with such a name, or bound elsewhere than to loopback, everybody needs a token."""
    bound = bound_address(host)
    if not 0 <= port <= 65535:
        raise BadInput(f"port: {port} is not between 0 and 65535.")
    hosts = allowed_hosts(bound, host, named)
    needs_token = bool(named) or not bound.is_loopback
    tokens = TokenFile(context.workdir)
    if needs_token:
        _require_token(tokens, context.workdir, host, named)
    with only_one(context.workdir), closing(_listen(bound, port)) as listener:
        knows_users = can_tell()
        users = own_users() if knows_users else None
        app = create_app(context)
        guard = Guard(app, tokens, hosts, users=frozenset() if needs_token else users)
        at = _reached(bound, listener, needs_token=needs_token, knows_users=knows_users)

        def ready() -> None:
            announce(context.workdir, at.url)
            on_ready(at)

        _run(guard, listener, ready)
    # What a person has begun is not cut off in the middle.
    if context.actions.acquire(timeout=_ACTION_S):
        context.actions.release()


def create_app(context: Context) -> "FastAPI":
    """API and pages, without the guard. Once in a process: NiceGUI has one app."""
    from lefleet.dash import nicegui_setup

    nicegui_setup.set_up(private_folder(context.workdir))
    from fastapi import FastAPI

    from lefleet.dash import api, media, pages
    from lefleet.dash.api.errors import answer_errors

    app = FastAPI(openapi_url=None)
    app.mount(api.PREFIX, api.create_api(context))
    app.include_router(media.router(context))
    answer_errors(app)
    pages.register(context)
    nicegui_setup.mount_pages(app)
    return app


def bound_address(host: str) -> IpAddress:
    """The address that a name has on this machine."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BadInput(
            f"host: {host!r} is neither an address nor a known name.",
            "Use 127.0.0.1, an address of this machine, or 0.0.0.0 for all of them.",
        ) from error
    return ip_address(found[0][4][0])


def _require_token(tokens: TokenFile, workdir: Path, host: str, named: Sequence[str]) -> None:
    if tokens.has_any():
        return
    if tokens.problem:
        raise BadInput(tokens.problem)
    where = f"allow_host: {named[0]}" if named else f"host: {host}"
    raise BadInput(
        f"{where} can be reached from elsewhere, and nobody has a token yet.",
        f"Make one first: lefleet dash token add NAME --may approve,label{workdir_flag(workdir)}",
    )


def _listen(bound: IpAddress, port: int) -> socket.socket:
    family = socket.AF_INET6 if bound.version == 6 else socket.AF_INET
    try:
        listener = socket.create_server((str(bound), port), family=family)
    except OSError as error:
        # The error's own text repeats the address as Python writes it.
        is_taken = error.errno == errno.EADDRINUSE
        why = "another program uses it" if is_taken else os.strerror(error.errno or 0)
        raise BadInput(
            f"port: {port} of {bound} cannot be used: {why}.",
            "Choose another one with --port, or a free one with --port 0.",
        ) from error
    # Inherited by connections; asyncio sets it only for sockets that name TCP as their protocol. An
    # answer in two parts would otherwise wait 40 ms for the client's acknowledgement of the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _reached(
    bound: IpAddress, listener: socket.socket, *, needs_token: bool, knows_users: bool
) -> Listening:
    port = listener.getsockname()[1]
    here = bound
    if bound.is_unspecified:
        here = ip_address("::1" if bound.version == 6 else "127.0.0.1")
    elsewhere = socket.gethostname() if bound.is_unspecified else _in_url(bound)
    return Listening(
        url=f"http://{_in_url(here)}:{port}",
        elsewhere="" if bound.is_loopback else f"http://{elsewhere}:{port}",
        needs_token=needs_token,
        knows_users=knows_users,
    )


def _in_url(address: IpAddress) -> str:
    return f"[{address}]" if address.version == 6 else str(address)


def _run(guard: Guard, listener: socket.socket, ready: Callable[[], None]) -> None:
    config = uvicorn.Config(
        guard,
        # The one of its parsers that limits the headers of a request.
        http="h11",
        h11_max_incomplete_event_size=_MOST_HEADERS,
        ws_max_size=_MOST_MESSAGE,
        limit_concurrency=_MOST_CONNECTIONS,
        # Anybody may claim these headers; the guard reads the few that it needs.
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=_CLOSE_S,
    )
    try:
        asyncio.run(_Server(config, ready).serve(sockets=[listener]))
    except SystemExit as error:
        raise LeFleetError("The dashboard could not start.", "See the lines above.") from error


class _Server(uvicorn.Server):
    """Calls `ready` when it can be reached, and leaves the first signal to us: uvicorn would raise
    it again at the end, as if the command had failed."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
