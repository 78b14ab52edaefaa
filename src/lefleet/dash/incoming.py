"""Headers and body of a request, read strictly, before anybody trusts them."""

from ipaddress import ip_address
from urllib.parse import parse_qs

from starlette.types import Message, Receive, Scope

READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
FROM_PROXY = frozenset(
    {
        *(b"forwarded", b"via", b"x-real-ip", b"x-forwarded-for"),
        *(b"x-forwarded-host", b"x-forwarded-port", b"x-forwarded-prefix", b"x-forwarded-proto"),
    }
)
"""Headers that proxies add; anybody else may add them too."""
_MOST_FORM = 4096


class RefusedRequest(Exception):
    """Why a request goes no further."""

    def __init__(self, status: int, problem: str, remedy: str, *headers: tuple[str, str]) -> None:
        super().__init__(problem)
        self.status, self.problem, self.remedy, self.headers = status, problem, remedy, headers


class IncomingRequest:
    """The headers of a request, read strictly: one that has two of a kind is ambiguous, and two
    readers might each believe another one."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._headers: list[tuple[bytes, bytes]] = list(scope["headers"])

    def only(self, name: bytes) -> str | None:
        """The one value of a header; None without it."""
        found = [value for key, value in self._headers if key.lower() == name]
        if len(found) > 1:
            raise RefusedRequest(
                400, f"The header {name.decode()} is there twice.", "Send it once."
            )
        return found[0].decode("latin-1").strip() if found else None

    def bearer(self) -> str | None:
        """The token in the header Authorization; None without that header."""
        given = self.only(b"authorization")
        if given is None:
            return None
        scheme, _, token = given.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    def cookie(self, name: str) -> str:
        """Empty where there is none, or two: another server on this host may have set one."""
        values = [value.decode("latin-1") for key, value in self._headers if key == b"cookie"]
        pairs = [pair.strip().partition("=") for value in values for pair in value.split(";")]
        found = [value for key, _, value in pairs if key == name]
        return found[0] if len(found) == 1 else ""

    @property
    def peer(self) -> str:
        """Address that it came from, for log lines and limits; of one that a proxy on this machine
        passed on, the address that the proxy added last."""
        client = str((self.scope.get("client") or ("unknown",))[0])
        try:
            if ip_address(client).is_loopback:
                passed_on = [value for key, value in self._headers if key == b"x-forwarded-for"]
                last = b",".join(passed_on).rpartition(b",")[2].decode("latin-1").strip()
                return str(ip_address(last))
        except ValueError:
            pass
        return client

    @property
    def is_from_proxy(self) -> bool:
        return any(key.lower() in FROM_PROXY for key, _ in self._headers)

    @property
    def is_from_other_site(self) -> bool:
        """As browsers say it; other programs say nothing."""
        return self.only(b"sec-fetch-site") in ("cross-site", "same-site")

    @property
    def wants_page(self) -> bool:
        """Whether a person will read the answer."""
        accepts = [value for key, value in self._headers if key.lower() == b"accept"]
        is_page = any(b"text/html" in value.lower() for value in accepts)
        return is_page and not self.scope["path"].startswith("/api/")

    def require_own_site(self) -> None:
        """Other sites may link to a page, and nothing else: neither embed nor fetch."""
        how = (self.only(b"sec-fetch-mode"), self.only(b"sec-fetch-dest"))
        is_link = self.scope.get("method") in READING and how == ("navigate", "document")
        if self.is_from_other_site and not is_link:
            raise RefusedRequest(
                403, "Another site sent this request.", "Open the dashboard itself."
            )

    def require_origin_of_changes(self, origin: str) -> None:
        """What changes something comes from our own pages, or from a program with a token."""
        if self.scope["method"] in READING or self.bearer() is not None:
            return
        if self.only(b"origin") is None:
            raise RefusedRequest(
                403,
                "A request that changes something needs to say where it comes from.",
                f"Send the header Origin: {origin}, or Authorization: Bearer TOKEN",
            )


async def limited_body(request: IncomingRequest, receive: Receive, most: int) -> Receive:
    """Read the body, if it is not too large, so that the app gets all of it or nothing."""
    length = request.only(b"content-length")
    if length is None and request.only(b"transfer-encoding") is None:
        return receive
    too_large = RefusedRequest(413, f"More than {most} bytes were sent.", "Send less.")
    if length is not None and (len(length) > 12 or not length.isdecimal() or int(length) > most):
        raise too_large
    parts, size, has_more = [], 0, True
    while has_more:
        message = await receive()
        if message["type"] != "http.request":
            return _again(message, receive)
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        has_more = message.get("more_body", False)
        if size > most:
            raise too_large
    return _again({"type": "http.request", "body": b"".join(parts), "more_body": False}, receive)


def _again(message: Message, receive: Receive) -> Receive:
    """Receives `message` first."""
    waiting = [message]

    async def receiving() -> Message:
        return waiting.pop() if waiting else await receive()

    return receiving


async def read_form(request: IncomingRequest, receive: Receive) -> dict[str, str]:
    """The fields of a small form that was sent."""
    message = await (await limited_body(request, receive, _MOST_FORM))()
    body = message.get("body", b"").decode("latin-1")
    try:
        fields = parse_qs(body, max_num_fields=10)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}
