"""The device that is used from now on, tried out in a child process before anything starts."""

import sys
from collections.abc import Callable

from lefleet.devices.names import AUTO, CPU, parse_device
from lefleet.devices.probe import shows_gpu
from lefleet.devices.report import DeviceReport, usable
from lefleet.process import NoReport, ask

PATIENCE_S = 180.0
"""For importing torch on a busy machine, and for a driver that loads at its first use."""


def probe(wanted: str, patience_s: float = PATIENCE_S) -> DeviceReport:
    """What a child process finds, also where it hangs or crashes.

    Raises Denied where the rules of this process do not allow to start LeFleet's own programs.
    """
    argv = (sys.executable, "-m", "lefleet", "device", "probe", wanted)
    try:
        return ask(argv, DeviceReport, patience_s)
    except NoReport as error:
        return DeviceReport(wanted=wanted, problem=f"a small computation {error}")


def ready_device(wanted: str, field: str, look: Callable[[str], DeviceReport] = probe) -> str:
    """The device that `wanted`, the value of `field`, means on this machine. It has computed
    something; BadInput where it cannot. Asking for the CPU costs nothing.

    A process that imports torch anyway may `look` itself, with `devices.probe.examine`.
    """
    parse_device(wanted, field)
    if wanted == CPU or (wanted == AUTO and not shows_gpu()):
        return CPU
    return usable(look(wanted), field)
