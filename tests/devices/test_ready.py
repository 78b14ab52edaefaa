"""A device is tried in a child process, before anything starts."""

import pytest

from lefleet.constitution import installed
from lefleet.constitution.rules import Rules
from lefleet.constitution.schema import Constitution
from lefleet.devices import ready
from lefleet.devices.ready import probe, ready_device
from lefleet.devices.report import DeviceReport
from lefleet.errors import BadInput, Denied
from lefleet.process import NoReport
from tests.devices import needs_no_gpu


def never(wanted: str) -> DeviceReport:
    raise AssertionError(f"{wanted} was tried")


def test_asking_for_the_cpu_starts_nothing():
    assert ready_device("cpu", "device", never) == "cpu"


def test_auto_starts_nothing_where_no_file_tells_of_a_gpu(monkeypatch):
    monkeypatch.setattr(ready, "shows_gpu", lambda: False)
    assert ready_device("auto", "device", never) == "cpu"


def test_auto_is_what_was_tried(monkeypatch):
    monkeypatch.setattr(ready, "shows_gpu", lambda: True)
    tried = DeviceReport(wanted="auto", device="cuda")
    assert ready_device("auto", "device", lambda _: tried) == "cuda"


def test_a_name_is_checked_before_anything_is_tried():
    with pytest.raises(BadInput, match="device: 'warp' is not the name of a device"):
        ready_device("warp", "device", never)


@needs_no_gpu
def test_a_real_child_finds_that_a_device_is_missing():
    with pytest.raises(BadInput, match=r"device: cuda cannot be used: .* There is: cpu\."):
        ready_device("cuda", "device")


def test_a_probe_that_crashes_is_a_device_that_cannot_be_used(monkeypatch):
    def crash(*_):
        raise NoReport("was killed by SIGSEGV")

    monkeypatch.setattr(ready, "ask", crash)
    assert probe("cuda").problem == "a small computation was killed by SIGSEGV"


def test_rules_that_do_not_allow_lefleets_own_programs_hold_for_the_probe_too():
    with (
        installed(Rules(constitution=Constitution(version=1, commands={"other": None}))),
        pytest.raises(Denied),
    ):
        probe("cuda")
