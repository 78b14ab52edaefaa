"""Which device computes: how it is named, what this machine has, and whether it works.

    names     the one parser of device names; how a training is kept to one of several GPUs
    report    what a machine has, and the decision whether a device can be used: pure functions
    probe     looks at the machine and multiplies matrices; a program of its own, imports torch
    ready     the device that is used from now on, or a refusal, before anything starts

Imports `errors`, `records` and `process`; `stages`, `loop`, `policy`, `server`, `actions` and `cli`
use it. Names come from configs, requests, manifests and flags. A report comes from the probe's
stdout, because a driver that hangs or crashes must not take the caller down.
"""

from lefleet.devices.names import AUTO, CPU, parse_device
from lefleet.devices.ready import ready_device
from lefleet.devices.report import DeviceReport

__all__ = ["AUTO", "CPU", "DeviceReport", "parse_device", "ready_device"]
