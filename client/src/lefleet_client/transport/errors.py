"""What can go wrong with a network, as a person or a reconnect loop needs to know it."""


class TransportError(Exception):
    """Base of all errors of a transport."""


class BadSettings(TransportError):
    """The settings cannot work, whatever the network does."""


class CannotOpen(TransportError):
    """No connection: nobody listens, or whoever listens does not let us in."""


class Forked(TransportError):
    """A network does not follow a process into its children."""


class BadExpression(TransportError):
    """Not a key, or not a key expression."""


class Closed(TransportError):
    """The transport, or what was declared on it, is closed."""


class NoAnswer(TransportError):
    """Nobody answered in time."""


class AnswerFailed(TransportError):
    """Somebody was asked, and failed to answer; why is in their log."""
