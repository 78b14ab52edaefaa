"""A scripted server in a process of its own, that can be killed or frozen."""

import os
import signal
import subprocess
import sys

from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.client.remote.scripted import ScriptedServer
from tests.client.transport.networks import QUICK, endpoint_of
from tests.client.transport.waiting import bounded


class ChildServer:
    """Listens on the given endpoint; `endpoint` is the one with the port."""

    def __init__(self, name: str, endpoint: str) -> None:
        command = [sys.executable, "-m", "tests.client.remote.child", name, endpoint]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.endpoint = bounded(self._process.stdout.readline).strip()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        # Its threads may run on for a moment, and answer once more.
        os.waitpid(self._process.pid, os.WUNTRACED)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def __enter__(self) -> "ChildServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def main(name: str, endpoint: str) -> None:
    settings = ZenohSettings(mode="peer", listen=(endpoint,), extra=QUICK)
    with ZenohTransport.open(settings) as node:
        ScriptedServer(node, name)
        print(endpoint_of(node._session, "peer"), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
