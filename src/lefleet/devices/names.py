"""Names of devices: auto, cpu, cuda, cuda:N and mps."""

import re
from collections.abc import Mapping

from lefleet.errors import BadInput

AUTO = "auto"
"""The GPU of this machine, and the CPU where it has none."""
CPU = "cpu"
FORMS = "auto, cpu, cuda, cuda:N or mps"
VISIBLE = "CUDA_VISIBLE_DEVICES"
_NAME = re.compile(r"auto|cpu|cuda(:\d{1,3})?|mps")
_OTHERS = ("xpu", "hpu", "npu", "xla", "tpu", "rocm", "hip", "gpu")


def parse_device(text: str, field: str) -> str:
    """The device that `field` names; BadInput for what names none."""
    if _NAME.fullmatch(text):
        return text
    kind = text.partition(":")[0].lower()
    if kind in ("rocm", "hip", "gpu"):
        raise BadInput(
            f"{field}: {text} is not the name of a device.",
            "PyTorch calls the GPUs of NVIDIA and AMD cuda: use auto, cuda or cuda:N.",
        )
    if kind in _OTHERS:
        raise BadInput(f"{field}: {kind} devices are not supported.", f"Use {FORMS}.")
    raise BadInput(f"{field}: {text!r} is not the name of a device.", f"Use {FORMS}.")


def kind_of(device: str) -> str:
    """cuda of cuda:1."""
    return device.partition(":")[0]


def index_of(device: str) -> int:
    """1 of cuda:1; 0 where no number is given."""
    return int(device.partition(":")[2] or 0)


def kept_to(device: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Variables with which a program sees no other GPU than this one, which it then calls cuda.

    LeRobot trains on the first GPU that it sees, whatever number --policy.device has. `variables`
    are those of this process: where they hide GPUs, cuda:1 is the second of the others.
    """
    if ":" not in device:
        return {}
    seen = [one.strip() for one in variables.get(VISIBLE, "").split(",") if one.strip()]
    index = index_of(device)
    if seen and index >= len(seen):
        raise BadInput(
            f"device: {device} is hidden: {VISIBLE}={','.join(seen)} shows {len(seen)}.",
            f"They are counted from 0 among those that are shown. Unset {VISIBLE}, or use another.",
        )
    return {VISIBLE: seen[index] if seen else str(index)}
