"""Names of devices, and how a training is kept to one GPU."""

import pytest

from lefleet.devices.names import index_of, kept_to, kind_of, parse_device
from lefleet.errors import BadInput


@pytest.mark.parametrize("name", ["auto", "cpu", "cuda", "cuda:0", "cuda:15", "mps"])
def test_these_are_names(name):
    assert parse_device(name, "device") == name


@pytest.mark.parametrize("name", ["", "CUDA", "cuda:", "cuda:-1", "cpu:0", "auto:1", "cuda ", "1"])
def test_nothing_else_is(name):
    with pytest.raises(BadInput) as refused:
        parse_device(name, "model.device")
    assert refused.value.problem == f"model.device: {name!r} is not the name of a device."
    assert refused.value.remedy == "Use auto, cpu, cuda, cuda:N or mps."


@pytest.mark.parametrize("name", ["xpu", "hpu:1", "npu"])
def test_devices_that_lefleet_does_not_support_are_refused_as_such(name):
    with pytest.raises(BadInput, match=r"devices are not supported\. Use auto"):
        parse_device(name, "device")


@pytest.mark.parametrize("name", ["rocm", "gpu", "gpu:0"])
def test_other_words_for_a_gpu_get_the_right_one(name):
    with pytest.raises(BadInput, match="use auto, cuda or cuda:N"):
        parse_device(name, "device")


def test_parts_of_a_name():
    assert (kind_of("cuda:3"), index_of("cuda:3")) == ("cuda", 3)
    assert (kind_of("mps"), index_of("cuda")) == ("mps", 0)


@pytest.mark.parametrize(
    ("device", "before", "after"),
    [
        ("cpu", {}, {}),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "2,3"}, {}),
        ("cuda:1", {}, {"CUDA_VISIBLE_DEVICES": "1"}),
        ("cuda:1", {"CUDA_VISIBLE_DEVICES": "2, 3"}, {"CUDA_VISIBLE_DEVICES": "3"}),
        ("cuda:0", {"CUDA_VISIBLE_DEVICES": "GPU-8f"}, {"CUDA_VISIBLE_DEVICES": "GPU-8f"}),
    ],
)
def test_a_program_that_takes_the_first_gpu_sees_only_the_one_that_it_should(device, before, after):
    assert kept_to(device, before) == after


def test_a_gpu_that_is_hidden_is_refused():
    with pytest.raises(BadInput, match="device: cuda:1 is hidden: CUDA_VISIBLE_DEVICES=0 shows 1"):
        kept_to("cuda:1", {"CUDA_VISIBLE_DEVICES": "0"})
