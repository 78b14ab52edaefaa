"""What the probe sees of a machine: this one, and files of others."""

import pytest
import torch

from lefleet.devices.probe import examine, lacks_gpu, nvidia_driver, shows_gpu
from lefleet.devices.report import CudaFacts
from tests.devices import needs_no_gpu

VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build (dvs)"


def machine(root, *files):
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(VERSION)
    return root


@pytest.mark.parametrize(
    ("files", "driver"),
    [
        (("proc/driver/nvidia/version",), "570.86.15"),
        (("dev/nvidiactl",), "of unknown version"),
        (("usr/lib/wsl/lib/libcuda.so.1",), "of Windows"),
        (("dev/nvhost-gpu",), "of Jetson"),
        (("dev/kfd",), ""),
        ((), ""),
    ],
)
def test_drivers_are_found_by_their_files(tmp_path, files, driver):
    root = machine(tmp_path, *files)
    assert nvidia_driver(root) == driver
    assert shows_gpu(root, "Linux", "x86_64") == bool(files)


def test_a_mac_with_apple_silicon_may_have_a_gpu(tmp_path):
    assert shows_gpu(tmp_path, "Darwin", "arm64")
    assert not shows_gpu(tmp_path, "Darwin", "x86_64")


@pytest.mark.parametrize(
    ("files", "changes", "lacks"),
    [
        ((), {}, True),
        ((), {"driver": "570.86"}, False),
        ((), {"driver": "570.86", "visible": "-1"}, True),
        (("dev/kfd",), {}, True),
        (("dev/kfd",), {"built_for": "ROCm 6.2"}, False),
    ],
)
def test_auto_is_the_cpu_only_where_there_is_no_gpu_for_this_pytorch(
    tmp_path, files, changes, lacks
):
    facts = CudaFacts("2.11", "CUDA 13.0", driver="", visible=None, warned="")
    assert lacks_gpu(facts._replace(**changes), machine(tmp_path, *files)) == lacks


def test_the_cpu_computes():
    report = examine("cpu")
    assert (report.device, report.problem) == ("cpu", "")
    assert report.matmul_ms > 0.0
    assert report.torch == torch.__version__


@needs_no_gpu
@pytest.mark.parametrize("wanted", ["cuda", "cuda:1", "mps"])
def test_what_is_not_here_is_reported(wanted):
    report = examine(wanted)
    assert report.device == ""
    assert report.problem


@needs_no_gpu
def test_auto_is_the_cpu_here():
    assert examine("auto").device == "cpu"


def test_a_device_that_cannot_multiply_is_broken(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("CUDA error: no kernel image is available\nCompile with ...")

    monkeypatch.setattr(torch, "ones", fail)
    problem = examine("cpu").problem
    assert problem == (
        "multiplying two matrices on cpu failed: CUDA error: no kernel image is available"
    )


def test_a_device_that_computes_nonsense_is_broken(monkeypatch):
    monkeypatch.setattr(torch, "ones", lambda *size, **_: torch.zeros(*size))
    assert "the sum is 0, not 16777216" in examine("cpu").problem
