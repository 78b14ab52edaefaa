"""What can go wrong when a robot asks a server, as its operator needs to know it."""


class RemoteError(Exception):
    """Base of all errors of a remote policy. After any of them the next call starts over."""


class NoServer(RemoteError):
    """Nobody serves what was asked for, or nobody can be reached."""


class SeveralServices(RemoteError):
    """More than one service fits, and choosing one of them would be a guess."""


class Refused(RemoteError):
    """The server does not take this robot; `check` says which comparison failed."""

    def __init__(self, check: str, reason: str, text: str) -> None:
        super().__init__(text)
        self.check = check
        self.reason = reason


class WrongModel(RemoteError):
    """The service is there, but with another model, revision or checkpoint."""


class TimedOut(RemoteError):
    """The server is there, but no chunk came in time."""


class ServerDraining(RemoteError):
    """The server is about to go, and no other replica took the robot in time."""


class RequestRejected(RemoteError):
    """The server could not answer this observation; `reason` is its own text."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Replaced(RemoteError):
    """Another process opened a session with the same client_id."""


class BadObservation(RemoteError, ValueError):
    """An observation that cannot be sent; the text names the key."""
