"""What a machine has to compute with, and whether a device can be used: pure functions."""

from typing import NamedTuple

from lefleet.devices.names import AUTO, CPU, VISIBLE
from lefleet.errors import BadInput
from lefleet.records.border import Strict

_GIGABYTE = 10**9


class FoundDevice(Strict, frozen=True, kw_only=True):
    """A GPU as PyTorch shows it."""

    name: str
    """cuda:0, or mps."""
    title: str
    memory_bytes: int = 0
    """0 where the GPU shares the machine's memory."""
    free_bytes: int = 0

    def __str__(self) -> str:
        memory = f", {self.memory_bytes / _GIGABYTE:.0f} GB" if self.memory_bytes else ""
        return f"{self.name} ({self.title}{memory})"


class DeviceReport(Strict, frozen=True, kw_only=True):
    """What the probe found."""

    wanted: str
    """The name that was asked for."""
    device: str = ""
    """The device that `wanted` means here, which has computed a product; empty where there is a
    `problem`."""
    problem: str = ""
    """Why `wanted` cannot be used, without a full stop."""
    devices: tuple[FoundDevice, ...] = ()
    """GPUs that PyTorch sees, whether they work or not."""
    torch: str = ""
    """Version."""
    built_for: str = ""
    """CUDA 13.0, ROCm 6.2 or the CPU."""
    driver: str = ""
    """Of NVIDIA, as the kernel says it; empty where there is none."""
    matmul_ms: float = 0.0
    """Of a second product, after all is loaded."""


class CudaFacts(NamedTuple):
    """What is known where PyTorch has no CUDA."""

    torch: str
    built_for: str
    driver: str
    visible: str | None
    """The variable CUDA_VISIBLE_DEVICES."""
    warned: str
    """What PyTorch said when it looked."""

    @property
    def is_hidden(self) -> bool:
        """Whether a person has hidden all GPUs."""
        return self.visible is not None and self.visible.strip() in ("", "-1")


def why_no_cuda(facts: CudaFacts) -> str:
    """Why PyTorch sees no GPU, the most likely reason first."""
    if facts.is_hidden:
        return f"{VISIBLE}={facts.visible} hides all GPUs"
    if facts.built_for == "the CPU":
        return f"PyTorch {facts.torch} is built for the CPU alone"
    if facts.warned:
        return f"PyTorch says: {facts.warned}"
    if not facts.driver:
        return f"PyTorch {facts.torch} is built for {facts.built_for}, but no driver is loaded"
    return (
        f"NVIDIA driver {facts.driver} is loaded, but PyTorch {facts.torch} for {facts.built_for} "
        "finds no GPU"
    )


def usable(report: DeviceReport, field: str) -> str:
    """The device that is used from now on; BadInput where it cannot be."""
    if not report.problem:
        return report.device
    others = ", ".join((CPU, *map(str, report.devices)))
    what = "the GPU of this machine" if report.wanted == AUTO else report.wanted
    raise BadInput(
        f"{field}: {what} cannot be used: {report.problem}.",
        f"There is: {others}. Choose one of these, or repair it; lefleet doctor shows more.",
    )
