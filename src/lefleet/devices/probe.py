"""What this machine computes with, tried out: `lefleet device probe NAME` prints a report.

A process of its own, because it imports torch, and because a broken driver may crash or hang.
"""

import os
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import msgspec

from lefleet.devices.names import AUTO, CPU, VISIBLE, index_of, kind_of
from lefleet.devices.report import CudaFacts, DeviceReport, FoundDevice, why_no_cuda

_NVIDIA = "proc/driver/nvidia/version"
_OTHER_DRIVERS = {
    "usr/lib/wsl/lib/libcuda.so.1": "of Windows",
    "dev/nvhost-gpu": "of Jetson",
    "dev/nvidiactl": "of unknown version",
}
"""Where NVIDIA's driver leaves no version."""
_AMD = "dev/kfd"
_SIZE = 256
_LONGEST = 300


def main(wanted: str) -> int:
    """Print the report as one line of JSON, which is the last one."""
    report = examine(wanted)
    sys.stdout.write(f"\n{msgspec.json.encode(report).decode()}\n")
    return 0


def shows_gpu(root: Path = Path("/"), system: str = "", machine: str = "") -> bool:
    """Whether there may be a GPU, at a glance: without torch."""
    system, machine = system or platform.system(), machine or platform.machine()
    if system == "Darwin":
        return machine == "arm64"
    return any((root / sign).exists() for sign in (_NVIDIA, *_OTHER_DRIVERS, _AMD))


def nvidia_driver(root: Path = Path("/")) -> str:
    """Version of NVIDIA's driver, where the kernel has loaded it."""
    try:
        words = (root / _NVIDIA).read_text(errors="replace").split()
    except OSError:
        return next((said for sign, said in _OTHER_DRIVERS.items() if (root / sign).exists()), "")
    numbers = (word for word in words if word[0].isdigit() and "." in word)
    return next(numbers, "of unknown version")


def lacks_gpu(facts: CudaFacts, root: Path = Path("/")) -> bool:
    """Whether a machine on which PyTorch finds no GPU has none for it: then auto is the CPU. An AMD
    processor has files of a GPU too, which only a PyTorch for ROCm could use."""
    is_amd = facts.built_for.startswith("ROCm") and (root / _AMD).exists()
    return facts.is_hidden or not (facts.driver or is_amd)


def examine(wanted: str) -> DeviceReport:
    """Look at the machine, find out what `wanted` means here, and multiply two matrices on it."""
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - an import may raise anything
        return DeviceReport(wanted=wanted, problem=f"PyTorch cannot be imported: {_line(error)}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        has_cuda = torch.cuda.is_available()
    facts = CudaFacts(
        torch=str(torch.__version__),
        built_for=_built_for(torch),
        driver=nvidia_driver(),
        visible=os.environ.get(VISIBLE),
        warned=_line(caught[-1].message) if caught else "",
    )
    has_mps = torch.backends.mps.is_available()
    found = DeviceReport(
        wanted=wanted,
        devices=_devices(torch, has_cuda=has_cuda, has_mps=has_mps),
        torch=facts.torch,
        built_for=facts.built_for,
        driver=facts.driver,
    )
    device = wanted
    if wanted == AUTO:
        device = "cuda" if has_cuda else "mps" if has_mps else CPU
        if device == CPU and not lacks_gpu(facts):
            return msgspec.structs.replace(found, problem=why_no_cuda(facts))
    if kind_of(device) == "cuda" and not has_cuda:
        return msgspec.structs.replace(found, problem=why_no_cuda(facts))
    if kind_of(device) == "cuda" and index_of(device) >= len(found.devices):
        count = len(found.devices)
        problem = f"PyTorch sees {count} GPU{'s' if count != 1 else ''}, counted from 0"
        return msgspec.structs.replace(found, problem=problem)
    if device == "mps" and not has_mps:
        reason = "this is not a Mac with Apple silicon" if not torch.backends.mps.is_built() else ""
        reason = reason or "macOS does not offer it"
        return msgspec.structs.replace(found, problem=reason)
    try:
        matmul_ms = _multiply(torch, device)
    except Exception as error:  # noqa: BLE001 - whatever the driver says
        problem = f"multiplying two matrices on {device} failed: {_line(error)}"
        return msgspec.structs.replace(found, problem=problem)
    return msgspec.structs.replace(found, device=device, matmul_ms=matmul_ms)


def _built_for(torch: Any) -> str:
    if torch.version.cuda:
        return f"CUDA {torch.version.cuda}"
    if torch.version.hip:
        return f"ROCm {torch.version.hip}"
    return "Apple's GPUs" if torch.backends.mps.is_built() else "the CPU"


def _devices(torch: Any, *, has_cuda: bool, has_mps: bool) -> tuple[FoundDevice, ...]:
    found = []
    for index in range(torch.cuda.device_count() if has_cuda else 0):
        try:
            free, memory = torch.cuda.mem_get_info(index)
            title = torch.cuda.get_device_name(index)
        except Exception as error:  # noqa: BLE001 - one broken GPU does not hide the others
            free, memory, title = 0, 0, f"does not answer: {_line(error)}"
        found.append(
            FoundDevice(name=f"cuda:{index}", title=title, memory_bytes=memory, free_bytes=free)
        )
    return (*found, *([FoundDevice(name="mps", title="Apple GPU")] if has_mps else []))


def _multiply(torch: Any, device: str) -> float:
    """Milliseconds of a product, the second one; its content must be right."""
    ones = torch.ones(_SIZE, _SIZE, device=device)
    for _ in range(2):
        begun = time.perf_counter()
        total = float((ones @ ones).sum().item())
        passed_ms = 1000 * (time.perf_counter() - begun)
    if total != float(_SIZE) ** 3:
        raise ArithmeticError(f"the sum is {total:g}, not {_SIZE**3}")
    return passed_ms


def _line(said: object) -> str:
    """The first line of what others say."""
    lines = [line.strip() for line in str(said).splitlines() if line.strip()]
    text = lines[0] if lines else type(said).__name__
    return text[:_LONGEST].removesuffix(".")
