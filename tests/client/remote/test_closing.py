"""A policy can be closed at any moment, by any thread, and one that is garbage closes itself."""

import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from lefleet_client import wire
from lefleet_client.remote import RemoteError, RemotePolicy, guard
from lefleet_client.transport import Closed
from lefleet_client.transport import exit as at_exit
from tests.client.remote.scripted import Once, ScriptedServer, observation
from tests.client.transport.networks import OverRouter
from tests.client.transport.waiting import LONG_S, bounded, eventually

FOLDER = Path(guard.__file__).parent
BELOW = {str(FOLDER / f"{name}.py") for name in ("connection", "machine", "exchange", "endpoints")}
EVERYWHERE = {str(FOLDER / "policy.py"), guard.__file__, *BELOW}


class Interruption:
    """Calls `handler` before one of the lines that this thread runs, as a signal does."""

    def __init__(self, at: int, handler, files) -> None:
        self._files = files
        self._left = at
        self._handler = handler
        self.has_come = False

    def __enter__(self):
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame, event, arg):
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                self.has_come = True
                self._handler()
        return self._trace


def interrupted(world, at: int) -> bool:
    """Ask and close, interrupted by a handler that closes too; whether there is such a line."""
    server = world.server(f"s{at}", service=f"fold{at}")
    policy = world.robot(f"fold{at}")

    def ask_and_close() -> bool:
        with Interruption(at, policy.close, EVERYWHERE) as interruption:
            with suppress(RemoteError):
                policy.infer(observation())
            policy.close()
        return interruption.has_come

    has_come = bounded(ask_and_close)
    assert len(server.closes) == 1, f"line {at}"
    assert not server.client_alive("arm"), f"line {at}"
    server.close()
    return has_come


def test_a_signal_handler_may_close_before_any_line(world):
    at = 1
    while interrupted(world, at):
        at += 1
    assert at > 50


def broken_off(world, at: int) -> bool:
    """Ask, broken off by KeyboardInterrupt, ask again, and close; whether there is such a line."""

    def close_the_first(request):
        if once:
            request.event(wire.SessionClosed(reason="the server stopped"))
        else:
            request.chunk()

    def interrupt() -> None:
        raise KeyboardInterrupt

    once = Once()
    server = world.server(f"s{at}", service=f"fold{at}", act=close_the_first)
    policy = world.robot(f"fold{at}")

    def ask_again_and_close() -> bool:
        with Interruption(at, interrupt, BELOW) as interruption, suppress(KeyboardInterrupt):
            policy.infer(observation())
        assert policy.infer(observation()).server == server.name, f"line {at}"
        policy.close()
        return interruption.has_come

    has_come = bounded(ask_again_and_close)
    server.close()
    return has_come


def test_a_call_that_is_broken_off_before_any_line_leaves_a_usable_policy(world):
    at = 1
    while broken_off(world, at):
        at += 1
    assert at > 300


def test_a_signal_handler_cannot_ask_while_its_thread_asks(world):
    world.server()
    policy = world.robot()
    text = "this thread is in a call of this RemotePolicy"
    with (
        pytest.raises(RemoteError, match=text),
        Interruption(9, lambda: policy.infer(observation()), BELOW),
    ):
        policy.infer(observation())
    assert policy.infer(observation()).server == "a"


class InterruptedLock:
    """Is interrupted once, when it has been taken and the caller does not know yet."""

    def __init__(self, lock) -> None:
        self._lock = lock
        self._once = Once()
        self.release = lock.release

    def acquire(self, **options) -> bool:
        is_taken = self._lock.acquire(**options)
        if self._once:
            raise KeyboardInterrupt
        return is_taken


@pytest.mark.parametrize("broken_off", ["infer", "close"])
def test_a_call_that_is_broken_off_as_it_begins_does_not_keep_its_place(world, broken_off):
    server = world.server()
    policy = world.robot()
    policy._guard._busy = InterruptedLock(policy._guard._busy)
    with pytest.raises(KeyboardInterrupt):
        policy.close() if broken_off == "close" else policy.infer(observation())
    threading.Thread(target=policy.close, daemon=True).start()
    server.closes.wait(len)


@pytest.mark.parametrize("failing", ["tags", "CloseAtExit"])
def test_a_policy_that_cannot_be_made_leaves_no_transport_open(monkeypatch, failing):
    def fail(*_):
        raise Closed("the program is ending")

    network = OverRouter()
    before = list(at_exit._exit._open)
    if failing == "CloseAtExit":
        monkeypatch.setattr(guard, "CloseAtExit", fail)
    with pytest.raises(TypeError if failing == "tags" else RemoteError):
        RemotePolicy(network.router.endpoint, tags=1 if failing == "tags" else None)
    assert list(at_exit._exit._open) == before
    network.close()


def test_a_close_during_the_choice_of_a_codec_opens_nothing(world):
    arrived = threading.Event()
    server = world.server(act=lambda request: arrived.set())
    policy = world.robot(timeout_s=LONG_S)
    errors = []

    def ask() -> None:
        try:
            policy.infer(observation(image=True))
        except RemoteError as error:
            errors.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    assert arrived.wait(LONG_S)
    bounded(policy.close)
    thread.join(LONG_S)
    assert errors == ["this RemotePolicy is closed; make a new one"]
    assert len(server.opens) == len(server.closes) == 1


def test_a_policy_that_is_garbage_ends_its_session():
    network = OverRouter()
    server = ScriptedServer(network.node())
    policy = RemotePolicy(network.router.endpoint, "fold", client_id="arm")
    assert policy.infer(observation()).server == "a"
    assert server.client_alive("arm")
    del policy
    server.closes.wait(len)
    eventually(lambda: not server.client_alive("arm"))
    network.close()


def test_a_program_that_forgets_to_close_ends_its_session_and_exits():
    network = OverRouter()
    server = ScriptedServer(network.node())
    code = f"""
from lefleet_client import RemotePolicy
policy = RemotePolicy({network.router.endpoint!r}, "fold", timeout_s={LONG_S})
print(policy.infer({{"observation.state": [1, 2, 3]}}).robot[0, 0])
"""
    assert run(code) == "12.0\n"
    assert len(server.closes) == 1
    network.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_gets_an_error_and_does_not_hang():
    network = OverRouter()
    ScriptedServer(network.node())
    code = f"""
import os, signal
import numpy as np
from lefleet_client import RemoteError, RemotePolicy, wire
from lefleet_client.transport import Forked, ZenohSettings, ZenohTransport
images = {{key: np.zeros((8, 8, 3), np.uint8) for key in "abc"}}
wire.encode_images(images, 90)
policy = RemotePolicy({network.router.endpoint!r}, "fold", timeout_s={LONG_S})
transport = ZenohTransport.open(ZenohSettings(connect=({network.router.endpoint!r},)))
child = os.fork()
if not child:
    signal.alarm({int(LONG_S)})
    for call in (
        lambda: policy.infer({{"observation.state": [1, 2, 3]}}),
        lambda: RemotePolicy({network.router.endpoint!r}, "fold"),
        lambda: transport.present("a", 1.0),
    ):
        try:
            call()
        except (Forked, RemoteError) as error:
            print("fork" in str(error), "spawn" in str(error), flush=True)
    transport.close()
    policy.close()
    print(len(wire.encode_images(images, 90)), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(policy.infer({{"observation.state": [1, 2, 3]}}).robot[0, 0])
policy.close()
"""
    assert run(code) == "True True\n" * 3 + "3\n12.0\n"
    network.close()


def run(code: str) -> str:
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=LONG_S * 2,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout
