"""How commands connect to the network, their errors, and `router`."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from lefleet.certs.listener import TlsFiles, listener
from lefleet.cli.commands import ConnectOptions, RouterCommand, TlsOptions
from lefleet.cli.output import log_to_stderr, print_json, printable
from lefleet.cli.signals import StoppedEarly, StopSignals
from lefleet.errors import BadInput, LeFleetError
from lefleet_client.remote import RemoteError
from lefleet_client.transport import (
    BadSettings,
    CannotListen,
    CannotOpen,
    Tls,
    TransportError,
    ZenohSettings,
    ZenohTransport,
    certificate_identity,
    certified_name,
)
from lefleet_client.wire import BadKey

_LOG = logging.getLogger(__name__)
_LOOK_S = 1.0
"""How often a router or server looks whether its certificate files have changed."""


@contextmanager
def network_errors(listen: str = "") -> Iterator[None]:
    """Errors of the client package as one line with an exit code; decorates commands. `listen` is
    how a command is told another place to listen on."""
    try:
        yield
    except CannotListen as error:
        remedy = f"For instance: {listen}" if listen else ""
        raise LeFleetError(_sentence(error), remedy) from error
    except (BadSettings, BadKey) as error:
        raise BadInput(_sentence(error)) from error
    except (TransportError, RemoteError) as error:
        raise LeFleetError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    """Printable, because it may quote what a server sent."""
    text = printable(str(error))
    return text if text.endswith((".", "?")) else f"{text}."


def connect(command: ConnectOptions) -> ZenohTransport:
    """A node that reaches the endpoints of a command."""
    return ZenohTransport.open(connect_settings(command))


def connect_settings(command: ConnectOptions) -> ZenohSettings:
    """Of a node that reaches the endpoints of a command: one endpoint as a client, several as a
    peer, because a client connects only to the first that answers."""
    if not 0 < command.timeout_s <= 3600:
        raise BadInput(f"timeout_s: {command.timeout_s:g} is not between 0 and 3600.")
    tls = _tls(command)
    # The access list answers no questions of a server: it would seem that there are no servers.
    certified_name(tls, "", "client_id", ("operator", "robot"))
    return ZenohSettings(
        mode="client" if len(command.connect) == 1 else "peer",
        connect=command.connect,
        tls=tls,
        insecure=command.insecure,
        open_timeout_s=command.timeout_s,
    )


def may_read_robots(command: TlsOptions) -> bool:
    """Whether an access list lets this certificate read what robots report of themselves."""
    tls = _tls(command)
    return tls is None or certificate_identity(tls.cert).role != "robot"


def operator_name(command: TlsOptions) -> str:
    """The name in an operator's certificate, empty without certificates.

    Other roles' certificates are refused: a session under a robot's name would end the robot's own.
    """
    return certified_name(_tls(command), "", "client_id", ("operator",))


@network_errors(listen="--listen tcp/127.0.0.1:7448")
def route(command: RouterCommand) -> int:
    """Route messages until a signal asks to stop."""
    settings = ZenohSettings(
        mode="router",
        listen=command.listen,
        connect=command.connect,
        tls=_tls(command),
        insecure=command.insecure,
    )
    log_to_stderr()
    files = TlsFiles(settings)
    try:
        with StopSignals() as signals:
            with ZenohTransport.open(listener(settings)):
                signals.hold()
                if command.json:
                    print_json({"event": "routing", "listen": command.listen})
                else:
                    print(f"Router on {', '.join(command.listen)}. Stop it with Ctrl-C.")
                    sys.stdout.flush()
                is_stopping = wait_for_change(signals, files)
            while not is_stopping:
                with open_again(settings, signals):
                    is_stopping = wait_for_change(signals, files)
    except StoppedEarly:
        pass
    return 0


def open_node(settings: ZenohSettings, signals: StopSignals) -> ZenohTransport:
    """The node of a server. One that only connects to a router waits for it.

    To Zenoh it is then a client: a router forwards nothing between two peers, so two servers under
    one name would not learn of each other.
    """
    settings = listener(settings)
    if settings.mode != "peer" or settings.listen or len(settings.connect) != 1:
        return ZenohTransport.open(settings)
    is_logged = False
    while True:
        try:
            return ZenohTransport.open(replace(settings, mode="client"))
        except CannotOpen as error:
            if not is_logged:
                _LOG.warning("event=waiting_for_router reason=%r", str(error))
            is_logged = True
            if signals.wait(_LOOK_S):
                raise StoppedEarly from None


def open_again(settings: ZenohSettings, signals: StopSignals) -> ZenohTransport:
    """The node after its files have changed; it is tried until it opens, or a signal comes."""
    while True:
        try:
            transport = open_node(settings, signals)
        except (TransportError, BadInput) as error:
            _LOG.error("event=not_reopened reason=%r", str(error))
            if signals.wait(_LOOK_S):
                raise
        else:
            _LOG.info("event=reopened listen=%s", ",".join(settings.listen))
            return transport


def wait_for_change(signals: StopSignals, files: TlsFiles) -> bool:
    """Block until the node must be opened again (False), or a signal asks to stop (True)."""
    while not signals.wait(_LOOK_S):
        if files.has_changed():
            return False
    return True


def _tls(command: TlsOptions) -> Tls | None:
    """The files of a folder, or the three that were given, or None where none was given."""
    given = {"ca": command.tls_ca, "cert": command.tls_cert, "key": command.tls_key}
    if command.tls and any(given.values()):
        raise BadInput("tls: the folder and single files are given.", "Give one of them.")
    if command.tls:
        return Tls.folder(command.tls)
    if not any(given.values()):
        return None
    missing = [f"tls.{name}" for name, path in given.items() if not path]
    if missing:
        raise BadInput(
            f"{', '.join(missing)}: missing; with TLS both sides present a certificate.",
            "Give --tls.ca, --tls.cert and --tls.key, or a folder with all three as --tls.",
        )
    return Tls(**given)
