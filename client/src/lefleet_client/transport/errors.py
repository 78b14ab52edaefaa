"""What can go wrong with a network, as a person or a reconnect loop needs to know it."""


class TransportError(Exception):
    """Base of all errors of a transport.

    TransportError
    ├── BadSettings     the settings cannot work, whatever the network does
    ├── BadExpression   not a key, or not a key expression
    ├── CannotOpen      no connection
    │   └── CannotListen    another program has the port, or the address is not this machine's
    ├── Forked          the transport was opened before a fork
    ├── Closed          the transport, or what was declared on it, is closed
    ├── ThreadsEnded    the main thread has ended
    ├── ZenohFailed     Zenoh raised an error, though the transport is open
    ├── NoAnswer        no answer came in time
    └── AnswerFailed    the other side was asked, and failed to answer
    """


class BadSettings(TransportError):
    """The settings cannot work, whatever the network does."""


class BadExpression(TransportError):
    """Not a key, or not a key expression."""


class CannotOpen(TransportError):
    """No connection: no node listens there, or it does not let us in."""


class CannotListen(CannotOpen):
    """Another program has the port, or the address is none of this machine."""


class Forked(TransportError):
    """A network does not follow a process into its children."""


class Closed(TransportError):
    """The transport, or what was declared on it, is closed."""


class ThreadsEnded(TransportError):
    """Nothing can be declared: the main thread has ended, and Python starts no more threads."""


class ZenohFailed(TransportError):
    """Zenoh raised an error, though the transport is open; the message is Zenoh's."""


class NoAnswer(TransportError):
    """No answer came in time."""


class AnswerFailed(TransportError):
    """The other side was asked, and failed to answer; its log says why."""
