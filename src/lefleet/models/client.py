"""A language model's name, one typed question to it, and the one way in which that can fail."""

import os
import re
from collections.abc import Callable
from typing import Any, Literal, Self, get_args
from urllib.parse import urlsplit

import msgspec

from lefleet.errors import BadInput
from lefleet.models.clamp import one_line
from lefleet.records.border import Strict
from lefleet.records.fields import NotNegative, Positive

ModelProvider = Literal["openai", "openai-chat", "anthropic", "google"]

_URLS: dict[ModelProvider, str] = {
    "openai": "https://api.openai.com/v1",
    "openai-chat": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}
_KEYS: dict[ModelProvider, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
"""Environment variables of a provider's key; the first that is set counts."""
_SPELLING = (
    "Write provider:model or provider:model@base_url, for instance "
    "openai-chat:qwen3@http://127.0.0.1:8000/v1."
)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:+-]{0,199}")
_URL_TEXT = re.compile(r"[!-~]{1,500}")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
NOT_INSTALLED = "the packages for language models are not installed: pip install 'lefleet[models]'"


class ModelName(Strict, frozen=True, kw_only=True):
    """Which model is asked, and where. It holds no secret."""

    provider: ModelProvider
    model: str
    base_url: str = ""
    """Empty: the provider's own."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `provider:model[@base_url]`. A mistake in the address does not repeat the address:
        it may hold a password."""
        provider, colon, rest = text.partition(":")
        if not colon or provider not in get_args(ModelProvider):
            known = ", ".join(get_args(ModelProvider))
            raise BadInput(
                f"propose.model: {one_line(provider, 40)!r} is not a provider; known are {known}.",
                _SPELLING,
            )
        model, at, url = rest.partition("@")
        if not _MODEL.fullmatch(model):
            raise BadInput("propose.model: the model's name is missing or malformed.", _SPELLING)
        if at:
            _require_plain_url(url)
        return cls(provider=provider, model=model, base_url=url.rstrip("/"))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}" + (f"@{self.base_url}" if self.base_url else "")

    @property
    def url(self) -> str:
        """Where requests go."""
        return self.base_url or _URLS[self.provider]

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        return urlsplit(self.url).hostname in _LOOPBACK

    @property
    def takes_key(self) -> bool:
        """Whether a key may be sent: never in clear text to another machine."""
        return self.is_local or self.url.startswith("https:")


def _require_plain_url(url: str) -> None:
    try:
        parts = urlsplit(url) if _URL_TEXT.fullmatch(url) else urlsplit("")
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_address = is_address and (parts.port is None or parts.port > 0)
    except ValueError:
        is_address = False
    if not is_address:
        raise BadInput("propose.model: the base URL is not an http or https address.", _SPELLING)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise BadInput(
            "propose.model: the base URL has a user, a password, a query or a fragment.",
            "Leave them out; keys come from the environment only.",
        )


class AskLimits(Strict, frozen=True, kw_only=True):
    """What one question may cost."""

    timeout_s: float
    """All tries together."""
    retries: NotNegative
    """Further tries after an answer of the wrong form."""
    max_answer_tokens: Positive
    token_budget: NotNegative = 0
    """Tokens that are left, read and written. 0: no limit."""


class Asked[T](Strict, frozen=True, kw_only=True):
    """An answer of the right form. Nothing in it is true or allowed only because of its form."""

    value: T
    input_tokens: NotNegative
    output_tokens: NotNegative


class Unusable(Strict, frozen=True, kw_only=True):
    """No answer, for whatever reason. The tokens are spent all the same."""

    reason: str
    """For a person, in LeFleet's words: never a key, a header or text of the server."""
    input_tokens: NotNegative = 0
    output_tokens: NotNegative = 0


def ask[T: Strict](
    name: ModelName,
    instructions: str,
    data: dict[str, Any],
    answer_type: type[T],
    limits: AskLimits,
    *,
    on_wait: Callable[[], None] = lambda: None,
) -> Asked[T] | Unusable:
    """Ask one question and wait for a typed answer.

    `instructions` are constant text; `data` is sent beside them as one JSON document. `on_wait` is
    called every few seconds. Nothing that a model, a server or a network does raises here.
    """
    key = _key(name)
    if isinstance(key, Unusable):
        return key
    try:
        # Takes seconds, and the packages may be missing.
        from lefleet.models.exchange import converse
    except ImportError:
        return Unusable(reason=NOT_INSTALLED)
    return converse(
        name,
        key,
        instructions=instructions,
        document=_document(data),
        answer_type=answer_type,
        limits=limits,
        on_wait=on_wait,
    )


def _document(data: dict[str, Any]) -> str:
    """JSON without angle brackets: in a conversation they make tags and special tokens, with which
    a text in the data could pass for a message of its own."""
    text = msgspec.json.encode(data).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def _key(name: ModelName) -> str | Unusable:
    """From the environment; empty where none is needed and none is set."""
    variables = _KEYS[name.provider]
    found = [(one, os.environ[one].strip()) for one in variables if os.environ.get(one, "").strip()]
    if not found or not name.takes_key:
        if name.base_url:
            return ""
        return Unusable(reason=f"the environment has no {' or '.join(variables)}")
    variable, key = found[0]
    if not re.fullmatch("[!-~]+", key):
        return Unusable(reason=f"{variable} has characters that no key has")
    return key
