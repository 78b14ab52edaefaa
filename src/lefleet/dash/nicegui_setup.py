"""What NiceGUI is told before it serves the first page: nonces, sockets and folders.

Three things go beyond its settings, and each fails at the start, not later, if NiceGUI changes
there:

    scripts   Only the scripts of NiceGUI's own template get the nonce of a page. A script that
              somebody brings in through a text has none, and the browser does not run it.
    sockets   Only websockets, without long polling; and what a socket sends reaches only pages that
              the same person opened. NiceGUI itself asks for no more than the random id of a page.
    pings     Often enough for proxies, which cut connections that are silent for a minute.
"""

import inspect
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from lefleet.dash.answers import ICON

if TYPE_CHECKING:
    from fastapi import FastAPI

_NONCE = """nonce="{{ request.scope['lefleet.nonce'] }}\""""
_BLESSED = ("<script", '<link rel="modulepreload"')
_RECONNECT_S = 60.0
"""How long a page waits for a phone that was locked. What is in its fields is kept so long."""
_PING_S = 20.0


def set_up(folder: Path) -> None:
    """Before any page is registered. NiceGUI writes nothing but into `folder`, if at all."""
    # Read when NiceGUI is imported. By default it is a folder where the command was started.
    os.environ["NICEGUI_STORAGE_PATH"] = str(folder / "nicegui")
    from nicegui import app, core

    _give_nonces()
    core.sio.eio.transports = ["websocket"]
    app.config.socket_io_js_transports = ["websocket"]
    _bind_sockets(core.sio)
    app.on_startup(_ping_often)


def mount_pages(app: "FastAPI") -> None:
    """Serve NiceGUI's pages from `app`; they are registered by now."""
    from nicegui import ui

    ui.run_with(
        app,
        title="LeFleet",
        favicon=ICON.decode(),
        dark=None,
        language="en-US",
        reconnect_timeout=_RECONNECT_S,
        show_welcome_message=False,
        tailwind=False,
    )


def _give_nonces() -> None:
    from jinja2 import FunctionLoader
    from nicegui.client import templates

    shipped = templates.env.loader
    if shipped is None:
        raise RuntimeError("NiceGUI has no templates")

    def with_nonces(name: str) -> str:
        source, _, _ = shipped.get_source(templates.env, name)
        for tag in _BLESSED:
            source = source.replace(tag, f"{tag} {_NONCE}")
        return source

    templates.env.loader = FunctionLoader(with_nonces)


def _ping_often() -> None:
    from nicegui import core

    core.sio.eio.ping_interval = core.sio.eio.ping_timeout = _PING_S


def _bind_sockets(sio: Any) -> None:
    """See that sockets of one person cannot act on pages of another."""
    handlers = sio.handlers["/"]
    for event in ("handshake", "event", "javascript_response", "ack", "log"):
        sio.on(event, handler=_of_same_person(sio, handlers[event]))
    connect = handlers["connect"]

    async def connecting(sid: str, environ: dict[str, Any], _: Any = None) -> Any:
        query = parse_qs(environ.get("QUERY_STRING", ""))
        for page in query.get("client_id", []):
            if not _is_own_page(page, environ):
                return False
        return await connect(sid, environ)

    sio.on("connect", handler=connecting)


def _of_same_person(
    sio: Any, handler: Callable[[str, dict[str, Any]], Any]
) -> Callable[[str, Any], Awaitable[Any]]:
    async def handling(sid: str, message: Any) -> Any:
        page = message.get("client_id") if isinstance(message, dict) else None
        if not isinstance(page, str) or not _is_own_page(page, sio.get_environ(sid)):
            return False
        result = handler(sid, message)
        return await result if inspect.isawaitable(result) else result

    return handling


def _is_own_page(page: str, environ: dict[str, Any] | None) -> bool:
    """Whether a page was opened by the person who has this socket, and who is still logged in. A
    page that is gone is nobody's; NiceGUI then lets the browser load it again."""
    from nicegui import Client

    client: Client | None = Client.instances.get(page)
    if client is None:
        return True
    scope = (environ or {})["asgi.scope"]
    is_same: bool = scope["lefleet.person"] == client.request.scope["lefleet.person"]
    return is_same and bool(scope["lefleet.is_valid"]())
