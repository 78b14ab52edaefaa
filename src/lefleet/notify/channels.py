"""The two ways to send a message: a program of the user's, and an HTTP request."""

import os
import select
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException, RemoteDisconnected
from pathlib import Path
from socket import gaierror
from urllib import request as urls
from urllib.error import HTTPError, URLError

from lefleet.errors import LeFleetError, StageFailed
from lefleet.notify.address import WebhookAddress
from lefleet.process import exit_words, launch, oom_kills, processes_marked, stop

COMMAND_S = 60.0
WEBHOOK_S = 20.0
OUTPUT_BYTES = 4096
"""The beginning of a command's output that is kept."""
MARK = "LEFLEET_NOTIFY"
"""Variable in the environment of a command and of all that it starts."""
_INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE"),
    # Without these nothing can be shown on the user's desktop.
    *("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
)
"""What a command gets of the environment: enough to find programs and the user's session, and no
key of any service."""


class NotSent(LeFleetError):
    """A message did not arrive this time; another try may help."""

    def __init__(self, problem: str, output: bytes = b"") -> None:
        super().__init__(problem)
        self.output = output
        """The beginning of what a command printed."""


def run_command(
    argv: Sequence[str], payload: bytes, mark: str, folder: Path, timeout_s: float = COMMAND_S
) -> bytes:
    """Start `argv` in `folder` with the message on its stdin. The beginning of what it printed;
    NotSent where it did not exit with 0."""
    name, before = Path(argv[0]).name, oom_kills()
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        child = launch(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            environment={**environment, MARK: mark},
            inherits=False,
        )
    except StageFailed as error:
        raise NotSent(f"notify.command: {error}") from None
    with child:
        try:
            _tell(child, payload)
            output = _output(child, time.monotonic() + timeout_s)
        finally:
            is_late = child.poll() is None
            if is_late:
                _kill(child, mark)
    if is_late:
        raise NotSent(f"notify.command: {name} did not exit within {timeout_s:g} s.", output)
    if child.returncode:
        said = exit_words(child.returncode, before)
        raise NotSent(f"notify.command: {name} {said}.", output)
    return output


def _tell(child: "subprocess.Popen[bytes]", payload: bytes) -> None:
    """A message is smaller than a pipe's buffer, so this does not wait for the command; and it may
    exit without reading it."""
    assert child.stdin is not None  # noqa: S101
    with suppress(BrokenPipeError):
        child.stdin.write(payload)
    with suppress(BrokenPipeError):
        child.stdin.close()


def _output(child: "subprocess.Popen[bytes]", deadline: float) -> bytes:
    """Read until it exits, not longer: what it has started may keep the pipe open."""
    assert child.stdout is not None  # noqa: S101
    kept, pipe = b"", child.stdout.fileno()
    while (left := deadline - time.monotonic()) > 0:
        has_exited = child.poll() is not None
        is_readable = select.select([pipe], [], [], 0.0 if has_exited else min(left, 0.1))[0]
        data = os.read(pipe, 65536) if is_readable else b""
        kept = (kept + data)[:OUTPUT_BYTES]
        if has_exited and not data:
            break
        if is_readable and not data:
            # It has closed its output and goes on.
            time.sleep(min(left, 0.1))
    return kept


def _kill(child: "subprocess.Popen[bytes]", mark: str) -> None:
    """The command, and what it has started."""
    stop(child, grace_s=1.0)
    for pid, other in processes_marked(MARK).items():
        if other == mark:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def post(address: WebhookAddress, payload: bytes, timeout_s: float = WEBHOOK_S) -> None:
    """Post the message; NotSent where the answer is not a success. Its body is not read, redirects
    are not followed, and what libraries say of a failure is not passed on: it may repeat the
    address."""
    headers = {"Content-Type": "application/json", "User-Agent": "lefleet"}
    if address.authorization:
        headers["Authorization"] = address.authorization
    where = f"notify.webhook: {address.shown}"
    try:
        # Only http and https: `address` has no other, and the opener knows no other.
        posted = urls.Request(address.url, payload, headers, method="POST")  # noqa: S310
        with _within(timeout_s):
            _opener().open(posted, timeout=timeout_s).close()
    except (OSError, HTTPException, ValueError) as error:
        raise NotSent(f"{where} {_words(error, timeout_s)}.") from None


def _opener() -> urls.OpenerDirector:
    """With the proxies of the environment, and without a handler of redirects."""
    opener = urls.OpenerDirector()
    for handler in (
        urls.ProxyHandler(),
        urls.HTTPHandler(),
        urls.HTTPSHandler(),
        urls.HTTPErrorProcessor(),
        urls.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _words(error: Exception, timeout_s: float) -> str:
    """What went wrong, in words that no other machine has chosen."""
    if isinstance(error, HTTPError):
        hint = " (a redirect, which is not followed)" if 300 <= error.code < 400 else ""
        error.close()
        return f"answered with status {error.code}{hint}"
    reason = error.reason if isinstance(error, URLError) else error
    match reason:
        case TimeoutError():
            return f"did not answer within {timeout_s:g} s"
        case gaierror():
            return "cannot be found: its name has no address"
        case ssl.SSLCertVerificationError():
            return f"has no valid certificate: {reason.verify_message}"
        case ssl.SSLError():
            return "cannot be reached: TLS could not be agreed on"
        case RemoteDisconnected():
            return "closed the connection without an answer"
        case OSError(errno=int(code)):
            return f"cannot be reached: {os.strerror(code)}"
    return f"cannot be reached: {type(reason).__name__}"


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after this time. A socket's own time-out counts from its last byte, so a
    server could hold a message for ever. Only in a main thread."""

    def expire(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
