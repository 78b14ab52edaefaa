"""The address of a webhook: secrets come from the environment, and are shown nowhere."""

import os
import re
import shutil
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from lefleet.errors import BadInput
from lefleet.records import NotifyPlan

_VARIABLE = re.compile(r"\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})")
_USER = re.compile(r"\w+://(?P<user>[^/]*)@")
_KEEP_IT_OUT = (
    "Put the address into an environment variable, for instance HOOK, and write webhook: $HOOK."
)
_SECRET_LENGTH = 20


class WebhookAddress(NamedTuple):
    """Where to post to. Only `shown` may be written anywhere."""

    url: str
    """Without a user's name and password, which HTTP sends in a header."""
    authorization: str
    """Value of that header; empty where there is none."""
    shown: str
    """Scheme and host."""

    def __repr__(self) -> str:
        return f"WebhookAddress({self.shown})"


def expand(webhook: str, environment: Mapping[str, str]) -> WebhookAddress:
    """The address with $NAME and ${NAME} replaced; BadInput where it cannot be used."""
    missing = [name for name in variables(webhook) if not environment.get(name)]
    if missing:
        raise BadInput(
            f"notify.webhook: the environment variable {missing[0]} is not set.",
            "Set it where the run is begun, resumed or approved, also in a systemd unit that does "
            "it.",
        )
    address = _VARIABLE.sub(lambda found: environment[found["name"] or found["braced"]], webhook)
    parts = _split(address.strip())
    authorization = ""
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
        authorization = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
    host = parts.netloc.rpartition("@")[2]
    return WebhookAddress(
        urlunsplit((parts.scheme, host, parts.path, parts.query, "")),
        authorization,
        f"{parts.scheme}://{parts.hostname}",
    )


def variables(webhook: str) -> list[str]:
    """Names of the environment variables in it."""
    return [found["name"] or found["braced"] for found in _VARIABLE.finditer(webhook)]


def require_sendable(plan: NotifyPlan) -> None:
    """Raise BadInput where a plan could never be carried out, or would put a secret into the
    ledger, which keeps the config."""
    if plan.command:
        name = plan.command[0]
        # A Path would drop the ./ that says that it is not looked for in PATH.
        if shutil.which(Path(name).expanduser() if name.startswith("~") else name) is None:
            raise BadInput(
                f"notify.command: there is no program {name!r} here that can be started.",
                "Give its whole path, and make it executable.",
            )
    if not plan.webhook:
        return
    for name in variables(plan.webhook):
        if not os.environ.get(name):
            raise BadInput(
                f"notify.webhook: the environment variable {name} is not set.",
                f"Set it before the run is begun: export {name}=…",
            )
    if plan.webhook.startswith("$"):
        expand(plan.webhook, os.environ)
        return
    _split(_VARIABLE.sub("x", plan.webhook))
    user = _USER.match(plan.webhook)
    if user and not variables(user["user"]):
        raise BadInput("notify.webhook: it contains a name and a password.", _KEEP_IT_OUT)
    literal = _VARIABLE.sub("", plan.webhook)
    if any(_looks_secret(word) for word in re.split(r"[/?&=#:@]+", literal)):
        raise BadInput("notify.webhook: a part of it looks like a secret.", _KEEP_IT_OUT)


def _looks_secret(word: str) -> bool:
    """As tokens do: long, without dots, of letters and digits."""
    is_mixed = any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
    return len(word) >= _SECRET_LENGTH and is_mixed and "." not in word


def _split(address: str) -> SplitResult:
    """The message must not repeat the address, so it says nothing about what is wrong with it."""
    problem = BadInput(
        "notify.webhook: it is not an http or https address.",
        "Write it as https://HOST/PATH; $NAME in it is replaced by an environment variable.",
    )
    is_clean = address.isascii() and address.isprintable() and " " not in address
    try:
        parts = urlsplit(address)
        is_complete = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        raise problem from None
    if not is_complete or not is_clean:
        raise problem
    return parts
