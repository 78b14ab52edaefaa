"""Commands on the network: how they connect, and errors in the style of all commands."""

from collections.abc import Iterator
from contextlib import contextmanager

from lefleet.cli.printable import printable
from lefleet.cli.serving import Connected, Secured
from lefleet.errors import BadInput, LeFleetError
from lefleet_client.remote import RemoteError
from lefleet_client.transport import (
    BadSettings,
    Tls,
    TransportError,
    ZenohSettings,
    ZenohTransport,
)
from lefleet_client.wire import BadKey


@contextmanager
def network_errors() -> Iterator[None]:
    """Errors of the client's side as one line with an exit code."""
    try:
        yield
    except (BadSettings, BadKey) as error:
        raise BadInput(_sentence(error)) from error
    except (TransportError, RemoteError) as error:
        raise LeFleetError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    """What servers say is part of it."""
    text = printable(str(error))
    return text if text.endswith((".", "?")) else f"{text}."


def tls_of(command: Secured) -> Tls | None:
    """The certificates that a command was given: all of them, or none."""
    given = {"ca": command.tls_ca, "cert": command.tls_cert, "key": command.tls_key}
    if not any(given.values()):
        return None
    missing = [f"tls.{name}" for name, path in given.items() if not path]
    if missing:
        raise BadInput(
            f"{', '.join(missing)}: missing, and both sides show a certificate.",
            "Give --tls.ca, --tls.cert and --tls.key.",
        )
    return Tls(**given)


def connect(command: Connected) -> ZenohTransport:
    """A node that reaches the endpoints of a command: one of them as a client, several as a peer,
    because a client takes the first that answers."""
    if not 0 < command.timeout_s <= 3600:
        raise BadInput(f"timeout_s: {command.timeout_s:g} is not between 0 and 3600.")
    return ZenohTransport.open(
        ZenohSettings(
            mode="client" if len(command.connect) == 1 else "peer",
            connect=command.connect,
            tls=tls_of(command),
            open_timeout_s=command.timeout_s,
        )
    )
