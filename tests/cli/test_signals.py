"""The first signal asks to stop, the second one exits; inherited dispositions do not matter."""

import signal
import subprocess
import sys

import pytest

from lefleet.cli.signals import StoppedEarly, StopSignals, interruptible
from tests.client.transport.waiting import LONG_S, bounded

STUCK = """
import time
from lefleet.cli.signals import StopSignals
with StopSignals() as signals:
    signals.hold()
    print("begun", flush=True)
    signals.wait()
    print("asked", flush=True)
    time.sleep(600)
"""

ELSEWHERE = """
import signal, sys, threading
from lefleet.cli.signals import StopSignals

def ask(main):
    pause, looks = threading.Event(), 0
    while looks < 20:
        pause.wait(0.005)
        looks = looks + 1 if sys._current_frames()[main].f_code.co_name == "wait" else 0
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

with StopSignals() as signals:
    signals.hold()
    threading.Thread(target=ask, args=(threading.get_ident(),), daemon=True).start()
    signals.wait()
    print("asked")
"""

pytestmark = pytest.mark.usefixtures("default_hangup")
each = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])


@pytest.fixture
def handled(number):
    """A signal without a handler must fail a test, and not end all of them."""
    before = signal.signal(number, lambda *_: None)
    yield number
    signal.signal(number, before)


@each
def test_before_there_is_anything_to_finish_a_signal_raises(handled):
    with StopSignals(), pytest.raises(StoppedEarly):
        signal.raise_signal(handled)


@each
def test_once_there_is_something_to_finish_a_signal_is_only_noted(handled):
    with StopSignals() as signals:
        signals.hold()
        signal.raise_signal(handled)
        bounded(signals.wait)


@each
def test_handlers_of_before_are_put_back(handled):
    before = signal.getsignal(handled)
    with StopSignals():
        assert signal.getsignal(handled) != before
    assert signal.getsignal(handled) == before


def test_what_shall_survive_its_terminal_does():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopSignals():
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_the_second_signal_does_not_wait():
    code = [sys.executable, "-c", STUCK]
    with subprocess.Popen(code, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "asked\n"
        child.send_signal(signal.SIGTERM)
        assert child.wait(LONG_S) == 128 + signal.SIGTERM


def test_a_signal_that_another_thread_gets_is_not_lost():
    code = [sys.executable, "-c", ELSEWHERE]
    with subprocess.Popen(code, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.wait(LONG_S) == 0
            assert child.stdout.read() == "asked\n"
        finally:
            child.kill()


def test_a_terminal_that_closes_twice_still_only_asks():
    code = [sys.executable, "-c", STUCK]
    with subprocess.Popen(code, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGHUP)
        assert child.stdout.readline() == "asked\n"
        child.send_signal(signal.SIGHUP)
        child.send_signal(signal.SIGINT)
        assert child.wait(LONG_S) == 128 + signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGINT])
@pytest.mark.parametrize("inherited", [signal.SIG_IGN, signal.SIG_DFL])
def test_an_interrupt_is_raised_whatever_was_inherited(handled, inherited):
    signal.signal(handled, inherited)
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(handled)
    assert signal.getsignal(handled) == inherited
