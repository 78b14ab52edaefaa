"""A cluster's jobs over its HTTP interface, every question with a time-out and the token.

Not through Ray's own client: that one waits for a frozen head for ever, and is a heavy import for a
controller that asks once a second.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shlex import join
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from lefleet.errors import BadInput, ClusterUnreachable, LeFleetError, TokenRefused
from lefleet.records.executor import StageResources

_TIMEOUT_S = 10.0
_MOST_BYTES = 10_000_000
_STARTING = "PENDING"
_RUNNING = "RUNNING"
_NO_SUCH_JOB = re.compile(r"Job \S+ does not exist\.?")
"""What Ray says of one; anything else may say 404 too, such as a proxy whose head is away."""
_TOKEN = re.compile(r"[!-~]+")
_STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
"""Seconds between SIGTERM and SIGKILL of a job; Ray's own 3 are too short for a training."""
_HELP = (
    "Set executor.token_file, or RAY_AUTH_TOKEN_PATH, to a file with the cluster's token, which "
    "`ray get-auth-token` prints on its head."
)


class JobRefused(LeFleetError):
    """The cluster was asked to start a job, and knows none of that name."""


class _NoSuchJob(Exception):
    """Ray says that it knows no job of this name."""


class ClusterJob(msgspec.Struct, frozen=True):
    """What a cluster says of a job."""

    status: str
    message: str | None = None
    driver_exit_code: int | None = None

    @property
    def is_pending(self) -> bool:
        return self.status == _STARTING

    @property
    def has_ended(self) -> bool:
        return self.status not in (_STARTING, _RUNNING)


class Jobs:
    """The jobs of the cluster at `address`. Every question may raise ClusterUnreachable."""

    def __init__(self, address: str, token_file: str = "") -> None:
        self.address = address.rstrip("/")
        self._token_file = token_file

    def version(self) -> str:
        """Of its Ray."""
        said: dict[str, Any] = self._ask("GET", "/api/version") or {}
        return str(said.get("ray_version", "unknown"))

    def nodes(self) -> int:
        """How many are alive."""
        said: dict[str, Any] = self._ask("GET", "/api/v0/nodes") or {}
        found = said.get("data", {}).get("result", {}).get("result", [])
        return sum(one.get("state") == "ALIVE" for one in found)

    def asks_for_token(self) -> bool:
        """Whether somebody without a token is turned away."""
        try:
            self._ask("GET", "/api/jobs/none", token="")
        except TokenRefused:
            return True
        return False

    def submit(
        self, name: str, argv: Sequence[str], wanted: StageResources, stop_wait_s: float
    ) -> None:
        """Start a job. Nothing happens where there is one of this name already. JobRefused where
        there is none afterwards.

        Its variables come from a file, so that the cluster's pages show none of them.
        """
        if self.find(name) is not None:
            return
        asked = {
            "entrypoint": f"exec {join(argv)}",
            "submission_id": name,
            "entrypoint_num_cpus": wanted.cpus,
            "entrypoint_num_gpus": wanted.gpus,
            "entrypoint_resources": wanted.custom or None,
            "runtime_env": {"env_vars": {_STOP_WAIT: f"{stop_wait_s:g}"}},
        }
        try:
            self._ask("POST", "/api/jobs/", asked)
        except ClusterUnreachable as error:
            # The answer may be lost, or another process was faster.
            if self.find(name) is None:
                raise JobRefused(error.problem, error.remedy) from error

    def find(self, name: str) -> ClusterJob | None:
        """None where the cluster knows no such job, for instance after a restart of its head."""
        try:
            said = self._ask("GET", f"/api/jobs/{quote(name)}")
        except _NoSuchJob:
            return None
        try:
            return msgspec.convert(said, ClusterJob)
        except msgspec.ValidationError as error:
            raise self._unreachable(f"it does not say what job {name} does: {error}") from error

    def stop(self, name: str) -> None:
        """Ask it to end; returns at once."""
        with suppress(_NoSuchJob):
            self._ask("POST", f"/api/jobs/{quote(name)}/stop")

    def log(self, name: str) -> str:
        """What its entrypoint printed."""
        try:
            said: dict[str, Any] = self._ask("GET", f"/api/jobs/{quote(name)}/logs") or {}
        except _NoSuchJob:
            return ""
        return str(said.get("logs", ""))

    def _ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        """The answer. With the cluster's token, unless another one is given. What speaks HTTP is
        imported here: every command imports this module.
        """
        from http.client import HTTPException
        from urllib import request as urls
        from urllib.error import HTTPError

        token = read_token(self._token_file) if token is None else token
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        # Only http and https: the config is checked, and the opener would know files too.
        asked = urls.Request(  # noqa: S310
            self.address + path,
            method=method,
            data=None if body is None else msgspec.json.encode(body),
            headers={"Content-Type": "application/json"} | authorization,
        )
        # The token goes to the cluster alone: not to a proxy, and not where an answer points to.
        opener = urls.OpenerDirector()
        for handler in (urls.HTTPHandler, urls.HTTPSHandler, urls.HTTPErrorProcessor):
            opener.add_handler(handler())
        opener.add_handler(urls.HTTPDefaultErrorHandler())
        try:
            with opener.open(asked, timeout=_TIMEOUT_S) as answer:
                return msgspec.json.decode(answer.read(_MOST_BYTES) or b"null")
        except HTTPError as error:
            with error:
                said = error.read(2000).decode(errors="replace").strip().splitlines()
            if error.code == 404 and any(_NO_SUCH_JOB.fullmatch(line.strip()) for line in said):
                raise _NoSuchJob from error
            if error.code in (401, 403):
                wrong = "wants a token" if error.code == 401 else "refuses the token"
                problem = f"executor.address: the cluster at {self.address} {wrong}."
                raise TokenRefused(problem, _HELP) from error
            raise self._unreachable((said or [error.reason])[-1]) from error
        except (HTTPException, msgspec.DecodeError) as error:
            raise self._unreachable("what is there is no dashboard, whose port is 8265") from error
        except OSError as error:
            raise self._unreachable(getattr(error, "reason", error)) from error

    def _unreachable(self, why: object) -> ClusterUnreachable:
        return ClusterUnreachable(
            f"executor.address: the cluster at {self.address} does not answer: {why}.",
            "See that its head runs and that this machine reaches the port of its dashboard.",
        )


def read_token(token_file: str) -> str:
    """The cluster's token, from where Ray itself looks for it if no file is named; empty where
    there is none. TokenRefused where the named file has none."""
    if not token_file and (token := os.environ.get("RAY_AUTH_TOKEN")):
        return token.strip()
    named = token_file or os.environ.get("RAY_AUTH_TOKEN_PATH", "")
    try:
        token = Path(named or "~/.ray/auth_token").expanduser().read_text().strip()
    except (OSError, RuntimeError, ValueError) as error:
        if not named:
            return ""
        why = getattr(error, "strerror", None) or error
        raise TokenRefused(f"executor.token_file: {named} cannot be read: {why}.", _HELP) from error
    if token and not _TOKEN.fullmatch(token):
        raise TokenRefused(f"executor.token_file: what {named} has is not one token.", _HELP)
    return token


def require_address(address: str) -> None:
    """BadInput where this cannot be the address of a cluster's dashboard."""
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise BadInput(
            f"executor.address: {address!r} is not the address of a Ray dashboard.",
            "Write http://HOST:8265. `lefleet cluster up` starts a cluster on this machine and "
            "prints its address.",
        )
