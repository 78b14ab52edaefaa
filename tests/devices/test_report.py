"""Whether a device can be used, by what a probe reported: no machine of ours has a GPU."""

import pytest

from lefleet.devices.report import CudaFacts, DeviceReport, FoundDevice, usable, why_no_cuda
from lefleet.errors import BadInput

CARD = FoundDevice(name="cuda:0", title="NVIDIA RTX 4090", memory_bytes=24 * 10**9)


def test_a_device_that_computed_is_used_under_the_name_that_it_has_here():
    assert usable(DeviceReport(wanted="auto", device="cuda", devices=(CARD,)), "device") == "cuda"


def test_what_cannot_be_used_is_refused_with_the_reason_and_what_there_is():
    report = DeviceReport(wanted="cuda:1", problem="PyTorch sees 1 GPU", devices=(CARD,))
    with pytest.raises(BadInput) as refused:
        usable(report, "model.device")
    assert refused.value.problem == "model.device: cuda:1 cannot be used: PyTorch sees 1 GPU."
    assert "There is: cpu, cuda:0 (NVIDIA RTX 4090, 24 GB)." in refused.value.remedy


def test_auto_does_not_fall_back_to_the_cpu_where_the_gpu_is_broken():
    report = DeviceReport(wanted="auto", problem="multiplying failed", devices=(CARD,))
    with pytest.raises(BadInput, match="device: the GPU of this machine cannot be used"):
        usable(report, "device")


FACTS = CudaFacts("2.11", "CUDA 13.0", driver="570.86", visible=None, warned="")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (FACTS._replace(driver=""), "built for CUDA 13.0, but no driver is loaded"),
        (FACTS._replace(built_for="the CPU"), "PyTorch 2.11 is built for the CPU alone"),
        (FACTS._replace(visible=""), "CUDA_VISIBLE_DEVICES= hides all GPUs"),
        (FACTS._replace(visible="-1"), "CUDA_VISIBLE_DEVICES=-1 hides all GPUs"),
        (FACTS._replace(warned="The driver is too old"), "PyTorch says: The driver is too old"),
        (FACTS, "NVIDIA driver 570.86 is loaded, but PyTorch 2.11 for CUDA 13.0 finds no GPU"),
    ],
)
def test_why_there_is_no_cuda(facts, words):
    assert words in why_no_cuda(facts)
