"""What can go wrong when a robot asks a server, as its operator needs to know it.

RemoteError
├── NoServer          no server answers for what was asked, or none can be reached
├── SeveralServices   more than one service fits, and choosing one of them would be a guess
├── Refused           the server does not take this robot; `check` says which comparison failed
├── WrongModel        another model, revision or checkpoint is served, or computed a chunk
├── TimedOut          the server is there, but no chunk came in time
├── SessionLost       the session ended before a chunk came, and the caller wanted no other one
├── ServerDraining    the server is about to stop, and no other replica took the robot in time
├── RequestRejected   the server could not answer this observation; `reason` is its own text
├── BadChunk          a chunk came that the session's policy cannot have made
├── Replaced          another process opened a session with the same client_id
└── BadObservation    an observation that cannot be sent; also a ValueError

After any of them the next call starts over, except after Replaced: a robot that took its place back
would take turns with the other process for ever.
"""


class RemoteError(Exception):
    """Base of all errors of a remote policy."""


class NoServer(RemoteError):
    """No server answers for what was asked, or none can be reached."""


class SeveralServices(RemoteError):
    """More than one service fits, and choosing one of them would be a guess."""


class Refused(RemoteError):
    """The server does not take this robot; `check` says which comparison failed."""

    def __init__(self, check: str, reason: str, text: str) -> None:
        super().__init__(check, reason, text)
        self.check = check
        self.reason = reason
        self._text = text

    def __str__(self) -> str:
        return self._text


class WrongModel(RemoteError):
    """Another model, revision or checkpoint is served, or computed a chunk."""


class TimedOut(RemoteError):
    """The server is there, but no chunk came in time."""


class SessionLost(RemoteError):
    """The session ended before a chunk came, and the caller wanted no other one."""


class ServerDraining(RemoteError):
    """The server is about to stop, and no other replica took the robot in time."""


class RequestRejected(RemoteError):
    """The server could not answer this observation; `reason` is its own text."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(reason, text)
        self.reason = reason
        self._text = text

    def __str__(self) -> str:
        return self._text


class BadChunk(RemoteError):
    """A chunk came that the session's policy cannot have made, or that no robot may execute."""


class Replaced(RemoteError):
    """Another process opened a session with the same client_id."""


class BadObservation(RemoteError, ValueError):
    """An observation that cannot be sent; the text names the key."""
