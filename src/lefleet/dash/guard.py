"""Who may reach the dashboard: Host, Origin, sessions and tokens. Nothing else is in front of it.

A pure ASGI app around all others, for http and for websockets. A request passes, in this order:

    1. Host     a name or address that the dashboard is bound to (DNS rebinding)
    2. Origin   absent, or our own; present where something is changed, unless a token is given;
                what another site embeds is refused, whatever it is (Fetch Metadata)
    3. Person   a session or a token; without tokens, the user who runs this process, from loopback

Only the login page and the icon need no person, and the guard answers them itself: so no request
without one ever reaches NiceGUI or the API. A person is in `scope["lefleet.person"]`, and
`scope["lefleet.is_valid"]` says whether they are still logged in.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lefleet.actions.people import Person, system_user
from lefleet.dash import answers
from lefleet.dash.hosts import AllowedHosts, port_of
from lefleet.dash.incoming import (
    FROM_PROXY,
    READING,
    IncomingRequest,
    RefusedRequest,
    limited_body,
    read_form,
)
from lefleet.dash.peers import user_of
from lefleet.dash.sessions import LIFETIME_S, AttemptLimiter, LoginSessions
from lefleet.dash.tokens import TokenFile

_LOG = logging.getLogger(__name__)
_MOST_BODY = 2 * 2**20
_WATCH_S = 2.0
"""How often an open websocket is checked for the end of its session."""
_POLICY_VIOLATION = 1008
_ASK_FOR_TOKEN = ("www-authenticate", "Bearer")
_KEPT_BACK = FROM_PROXY | {b"authorization", b"cookie"}
"""Headers that the app does not get: secrets, and what anybody may claim."""


@dataclass(frozen=True)
class _Visitor:
    person: Person
    is_valid: Callable[[], bool]


class Guard:
    """Wraps `app`. For the thread of the server's event loop."""

    def __init__(
        self, app: ASGIApp, tokens: TokenFile, hosts: AllowedHosts, *, users: frozenset[int] | None
    ) -> None:
        self.app = app
        """Under this name NiceGUI looks for the app that a server runs."""
        self._tokens = tokens
        self._hosts = hosts
        self._users = users
        """Users of this machine who need no token. Empty: everybody needs one. None: the kernel
        does not say who connects, and nobody needs one."""
        self._sessions = LoginSessions(tokens)
        self._attempts = AttemptLimiter()
        self._system_user = system_user()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                nonce = secrets.token_urlsafe(16)
                await self._http(scope, receive, answers.with_headers(send, nonce), nonce)
            case "websocket":
                await self._websocket(scope, receive, send)
            case "lifespan":
                await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send, nonce: str) -> None:
        request = IncomingRequest(scope)
        try:
            origin = self._origin(request)
            request.require_own_site()
            if scope["path"] == "/favicon.ico" and scope["method"] in ("GET", "HEAD"):
                await answers.answer(send, 200, answers.ICON, "image/svg+xml")
                return
            if scope["path"] == "/login":
                await self._login(request, origin, receive, send)
                return
            request.require_origin_of_changes(origin)
            visitor = self._visitor(request, origin)
            if visitor is None:
                await self._ask_to_log_in(request, send)
                return
            if scope["path"] == "/logout":
                await self._logout(request, origin, visitor, send)
                return
            receive = await limited_body(request, receive, _MOST_BODY)
        except RefusedRequest as refused:
            await answers.answer_problem(
                send,
                refused.status,
                refused.problem,
                refused.remedy,
                *refused.headers,
                as_page=request.wants_page,
            )
            return
        await self.app(_inner(scope, visitor, nonce), receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = IncomingRequest(scope)
        try:
            origin = self._origin(request)
            request.require_own_site()
            visitor = self._visitor(request, origin)
        except RefusedRequest:
            visitor = None
        if visitor is None:
            # Before it is accepted: the server answers the handshake with 403.
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        await _while_valid(self.app, _inner(scope, visitor, ""), receive, send, visitor.is_valid)

    def _origin(self, request: IncomingRequest) -> str:
        """Of our own pages, as the sender of this request reaches them. Requires the right Host,
        and no other Origin."""
        host = request.only(b"host")
        if host is None:
            raise RefusedRequest(400, "The request has no Host.", "Send one.")
        origin = self._hosts.origin(host)
        if origin is None:
            raise RefusedRequest(
                403,
                "This dashboard is not known by that name.",
                "Use the address that it printed, or start it with --allow-host NAME.",
            )
        given = request.only(b"origin")
        if given is not None and given.lower() != origin:
            raise RefusedRequest(
                403, "Another site sent this request.", "Open the dashboard itself."
            )
        return origin

    def _visitor(self, request: IncomingRequest, origin: str) -> _Visitor | None:
        """Who it is; None where that is to be asked."""
        if (bearer := request.bearer()) is not None:
            held = self._tokens.find(bearer)
            if held is None:
                raise self._wrong_token(request, is_allowed=self._attempts.allows(request.peer))
            return _Visitor(held.person, lambda: self._tokens.is_live(held))
        session = request.cookie(_cookie_name(origin))
        if session and (token := self._sessions.find(session)) is not None:
            return _Visitor(token.person, lambda: self._sessions.find(session) is not None)
        if self._is_own_user(request):
            return _Visitor(self._system_user, lambda: True)
        return None

    def _is_own_user(self, request: IncomingRequest) -> bool:
        """Whether it comes from a process of a user who needs no token, and not through a proxy,
        behind which anybody may be."""
        if request.is_from_proxy or self._users == frozenset():
            return False
        if self._users is None:
            return True
        client, server = request.scope["client"], request.scope["server"]
        return user_of((client[0], client[1]), (server[0], server[1])) in self._users

    def _wrong_token(self, request: IncomingRequest, *, is_allowed: bool) -> RefusedRequest:
        if not is_allowed:
            wait = ("retry-after", "10")
            return RefusedRequest(429, "Too many attempts.", "Wait a few seconds.", wait)
        _LOG.warning("event=token_refused peer=%s", request.peer)
        if self._tokens.problem:
            _LOG.error("event=tokens_unusable reason=%s", self._tokens.problem)
        return RefusedRequest(
            401,
            "The token is not valid.",
            "It may be revoked: ask whoever runs this dashboard for another one.",
            _ASK_FOR_TOKEN,
        )

    async def _ask_to_log_in(self, request: IncomingRequest, send: Send) -> None:
        path = request.scope["path"]
        if not request.wants_page or request.scope["method"] not in READING:
            why = " It came through a proxy." if request.is_from_proxy else ""
            raise RefusedRequest(
                401,
                f"You are not logged in.{why}",
                "Open /login in a browser, or send the header Authorization: Bearer TOKEN",
                _ASK_FOR_TOKEN,
            )
        if request.is_from_other_site:
            await answers.answer_page(send, 200, answers.reload_page())
            return
        query = request.scope["query_string"].decode("latin-1")
        wanted = f"{quote(path)}{'?' if query else ''}{query}"
        await answers.redirect(send, f"/login?next={quote(wanted, safe='')}")

    async def _login(
        self, request: IncomingRequest, origin: str, receive: Receive, send: Send
    ) -> None:
        if request.scope["method"] in ("GET", "HEAD"):
            given = parse_qs(request.scope["query_string"].decode("latin-1"))
            following = _own_path(given.get("next", ["/"])[0])
            if self._visitor(request, origin) is not None:
                await answers.redirect(send, following)
            else:
                await answers.answer_page(send, 200, answers.login_page(following))
            return
        if request.scope["method"] != "POST":
            raise RefusedRequest(
                405, "This is not possible here.", "", ("allow", "GET, HEAD, POST")
            )
        request.require_origin_of_changes(origin)
        form = await read_form(request, receive)
        following = _own_path(form.get("next", "/"))
        # Asked first: who tries too often learns nothing, not even by a token that is right.
        is_allowed = self._attempts.allows(request.peer)
        token = self._tokens.find(form.get("token", "").strip()) if is_allowed else None
        if token is None:
            refused = self._wrong_token(request, is_allowed=is_allowed)
            shown = answers.login_page(following, f"{refused.problem} {refused.remedy}")
            await answers.answer_page(send, refused.status, shown, *refused.headers)
            return
        name = _cookie_name(origin)
        if before := request.cookie(name):
            self._sessions.end(before)
        _LOG.info("event=logged_in who=%s peer=%s", token.person.name, request.peer)
        value = f"{name}={self._sessions.begin(token)}; Max-Age={LIFETIME_S:.0f}"
        await answers.redirect(send, following, ("set-cookie", value + _attributes(origin)))

    async def _logout(
        self, request: IncomingRequest, origin: str, visitor: _Visitor, send: Send
    ) -> None:
        name = _cookie_name(origin)
        session = request.cookie(name)
        if not session or visitor.person == self._system_user:
            await answers.redirect(send, "/")
        elif request.scope["method"] != "POST":
            await answers.answer_page(send, 200, answers.logout_page(visitor.person.name))
        else:
            self._sessions.end(session)
            forget = f"{name}=; Max-Age=0{_attributes(origin)}"
            await answers.redirect(send, "/login", ("set-cookie", forget))


def _inner(scope: Scope, visitor: _Visitor, nonce: str) -> dict[str, Any]:
    """The request as the app sees it."""
    return {
        **scope,
        "headers": [pair for pair in scope["headers"] if pair[0].lower() not in _KEPT_BACK],
        "lefleet.person": visitor.person,
        "lefleet.is_valid": visitor.is_valid,
        "lefleet.nonce": nonce,
    }


async def _while_valid(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, is_valid: Callable[[], bool]
) -> None:
    """Run a websocket until its person is logged out: no message after that reaches the app."""
    is_closed = False

    async def receiving() -> Message:
        message = await receive()
        if is_closed or not is_valid():
            return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}
        return message

    async def sending(message: Message) -> None:
        if not is_closed:
            await send(message)

    async def watch() -> None:
        nonlocal is_closed
        while is_valid():
            await asyncio.sleep(_WATCH_S)
        is_closed = True
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "logged out"})

    watcher = asyncio.create_task(watch())
    try:
        await app(scope, receiving, sending)
    finally:
        watcher.cancel()


def _own_path(wanted: str) -> str:
    """A path on this server to go to after the login; `/` where it leads elsewhere."""
    is_plain = wanted.isascii() and wanted.isprintable() and not set(wanted) & set(" \\")
    is_own = wanted.startswith("/") and not wanted.startswith("//")
    is_page = wanted.partition("?")[0] not in ("/login", "/logout")
    return wanted if is_plain and is_own and is_page else "/"


def _cookie_name(origin: str) -> str:
    """Browsers share cookies between the ports of a host, and several dashboards may run there."""
    port = port_of(origin)
    name = f"lefleet_{port}" if port else "lefleet"
    return f"__Host-{name}" if origin.startswith("https://") else name


def _attributes(origin: str) -> str:
    secure = "; Secure" if origin.startswith("https://") else ""
    return f"; Path=/; HttpOnly; SameSite=Strict{secure}"


def own_users() -> frozenset[int]:
    """Users of this machine who may use a dashboard without a token: whoever runs it, and root,
    who could do so in other ways."""
    return frozenset((os.geteuid(), 0))
