"""What goes over the wire: headers that are named here, answers of bounded size, errors without
the server's words.

The libraries above see neither the key nor the text of an error, so they cannot log, raise or
trace them.
"""

from typing import Any

import httpx2

from lefleet.models.client import ModelName

MAX_ANSWER_BYTES = 1_000_000
_BYTES_PER_TOKEN = 3
"""A cautious average: JSON has many short tokens."""
_HEADERS = ("accept", "anthropic-version", "content-length", "content-type", "host")
"""Of the requests that the libraries make, these are sent."""
_USER_AGENT = "lefleet"
_SHORTEST_SECRET = 8
"""Shorter keys are words for servers that need none, such as EMPTY; an answer may contain them."""
_PASSING = (408, 429)
"""Statuses below 500 after which another try may succeed."""


class CallFailed(Exception):
    """The exchange ended without an answer; `reason` is in LeFleet's words."""

    def __init__(self, reason: str, *, is_final: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_final = is_final


def estimated_tokens(size: int) -> int:
    """About how many tokens a text of `size` bytes has."""
    return -(-size // _BYTES_PER_TOKEN)


def without(key: str, text: str) -> str:
    """`text` with the key taken out: a server knows it and may repeat it."""
    return text.replace(key, "[key]") if len(key) >= _SHORTEST_SECRET else text


class BoundedClient(httpx2.AsyncClient):
    """An HTTP client for one conversation, in one thread.

    It follows no redirects, accepts no compressed answers, and gives up an answer that is too long
    where it becomes so.
    """

    def __init__(self, name: ModelName, key: str) -> None:
        # A proxy from the environment does not lead to a server on this machine.
        super().__init__(follow_redirects=False, timeout=None, trust_env=not name.is_local)
        self._name = name
        self._key = key
        self.reason = ""
        """Why the last exchange brought no answer. Libraries above wrap exceptions in their own."""
        self.is_final = False
        """Whether another try would end the same way."""
        self.sent = 0
        """Bytes of the last request that may have reached the server and been worked on."""
        self.received = 0
        """Bytes of the last answer so far."""

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        self.reason, self.is_final, self.sent, self.received = "", False, 0, 0
        try:
            return await self._exchange(request)
        except CallFailed as error:
            self.reason, self.is_final = error.reason, error.is_final
            raise
        except httpx2.HTTPError as error:
            self.reason = f"the server cannot be reached ({type(error).__name__})"
            # The library's own message may quote an address or a header.
            raise CallFailed(self.reason, is_final=False) from None

    async def _exchange(self, request: httpx2.Request) -> httpx2.Response:
        kept = {name: request.headers[name] for name in _HEADERS if name in request.headers}
        request.headers = httpx2.Headers({**kept, **self._own_headers()})
        self.sent = len(request.content)
        try:
            answer = await super().send(request, stream=True)
        except httpx2.ConnectError:
            self.sent = 0
            raise
        try:
            if not answer.is_success:
                self.sent, status = 0, answer.status_code
                is_final = status < 500 and status not in _PASSING
                raise CallFailed(f"the server answered with status {status}", is_final=is_final)
            if "content-encoding" in answer.headers:
                raise CallFailed("the answer is compressed, which was not offered", is_final=True)
            body = bytearray()
            async for part in answer.aiter_raw():
                self.received += len(part)
                if self.received > MAX_ANSWER_BYTES:
                    reason = f"the answer has more than {MAX_ANSWER_BYTES} bytes"
                    raise CallFailed(reason, is_final=True)
                body += part
        finally:
            await answer.aclose()
        return httpx2.Response(
            answer.status_code,
            headers={"content-type": "application/json"},
            content=without(self._key, body.decode(errors="replace")).encode(),
            request=request,
        )

    def _own_headers(self) -> dict[str, str]:
        own = {"accept-encoding": "identity", "user-agent": _USER_AGENT}
        if self._key:
            match self._name.provider:
                case "anthropic":
                    own["x-api-key"] = self._key
                case "google":
                    own["x-goog-api-key"] = self._key
                case _:
                    own["authorization"] = f"Bearer {self._key}"
        return own
