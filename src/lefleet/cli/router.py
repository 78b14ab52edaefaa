"""router: a meeting point for robots and servers that cannot reach each other."""

import sys

from lefleet.cli.network import tls_of
from lefleet.cli.output import print_json
from lefleet.cli.serving import Router
from lefleet.cli.signals import StoppedEarly, StopSignals
from lefleet_client.transport import ZenohSettings, ZenohTransport


def router_command(command: Router) -> int:
    """Route until asked to stop."""
    settings = ZenohSettings(
        mode="router", listen=command.listen, connect=command.connect, tls=tls_of(command)
    )
    try:
        with StopSignals() as signals, ZenohTransport.open(settings):
            signals.hold()
            if command.json:
                print_json({"event": "routing", "listen": command.listen})
            else:
                print(f"Router on {', '.join(command.listen)}. Stop it with Ctrl-C.")
                sys.stdout.flush()
            signals.wait()
    except StoppedEarly:
        pass
    return 0
