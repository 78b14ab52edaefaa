"""The first signal asks, the second one does not."""

import signal
import subprocess
import sys

import pytest

from lefleet.cli.signals import StoppedEarly, StopSignals
from tests.client.transport.waiting import LONG_S

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


def test_before_there_is_anything_to_finish_a_signal_ends_what_is_under_way():
    with StopSignals(), pytest.raises(StoppedEarly):
        signal.raise_signal(signal.SIGTERM)


def test_once_there_is_something_to_finish_a_signal_is_only_noted():
    with StopSignals() as signals:
        signals.hold()
        signal.raise_signal(signal.SIGTERM)
        signals.wait()


def test_handlers_of_before_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_second_signal_does_not_wait():
    code = [sys.executable, "-c", STUCK]
    with subprocess.Popen(code, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "asked\n"
        child.send_signal(signal.SIGTERM)
        assert child.wait(LONG_S) == 128 + signal.SIGTERM
