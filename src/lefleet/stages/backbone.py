"""ImageNet weights that a policy needs beside its data, known before a training starts.

Policies with cameras begin with a ResNet that torchvision downloads. Without a network that fails
after LeRobot has loaded, or waits for minutes.
"""

import os
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

from lefleet.errors import BadInput
from lefleet.stages.contract import is_camera, policy_features
from lefleet.stages.normalisation import PolicySettings, flag_value

SETTING = "pretrained_backbone_weights"
DEFAULT = "ResNet18_Weights.IMAGENET1K_V1"
FAMILIES = ("act", "diffusion", "vqbet")
"""Those with a ResNet of torchvision."""
FILES = {
    "ResNet18_Weights.IMAGENET1K_V1": "resnet18-f37072fd.pth",
    "ResNet34_Weights.IMAGENET1K_V1": "resnet34-b627a593.pth",
    "ResNet50_Weights.IMAGENET1K_V1": "resnet50-0676ba61.pth",
    "ResNet50_Weights.IMAGENET1K_V2": "resnet50-11ad3fa6.pth",
    "ResNet101_Weights.IMAGENET1K_V1": "resnet101-63fe2227.pth",
    "ResNet101_Weights.IMAGENET1K_V2": "resnet101-cd907fc2.pth",
    "ResNet152_Weights.IMAGENET1K_V1": "resnet152-394f9c45.pth",
    "ResNet152_Weights.IMAGENET1K_V2": "resnet152-f82ba261.pth",
}
"""What torchvision calls the files that it keeps."""
_SOURCE = "https://download.pytorch.org/models/"
_WAIT_S = 5.0
_NOTHING = ("", "null", "none", "~")


class Weights(NamedTuple):
    """Weights that torchvision loads when the policy is built."""

    name: str
    file: Path
    """In torch's cache, whether it is there or not."""

    @property
    def url(self) -> str:
        return _SOURCE + self.file.name

    def is_cached(self) -> bool:
        return self.file.is_file()


def needed_weights(
    settings: PolicySettings, info: Mapping[str, Any], checkpoint: Mapping[str, Any] | None
) -> Weights | None:
    """ImageNet weights that the policy begins with; a policy that is continued loads them too."""
    policy_type = str(checkpoint["type"]) if checkpoint else settings.policy_type
    cameras = [one for one in policy_features(info).values() if is_camera(one)]
    if policy_type not in FAMILIES or not cameras:
        return None
    default = checkpoint.get(SETTING) if checkpoint else DEFAULT
    given = flag_value(settings, SETTING)
    name = str(given if given is not None else default or "").strip("'\"")
    if name.lower() in _NOTHING or name not in FILES:
        return None
    return Weights(name, torch_cache() / FILES[name])


def torch_cache() -> Path:
    """Where torch keeps weights that it has downloaded."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("TORCH_HOME") or f"{cache}/torch"
    return Path(home).expanduser() / "hub" / "checkpoints"


def require_weights(weights: Weights | None) -> None:
    """Raise BadInput where they are neither here nor can be fetched."""
    if weights is None or weights.is_cached() or is_reachable(weights.url):
        return
    raise BadInput(
        f"policy: with cameras it begins with {weights.name}, which is not in "
        f"{weights.file.parent}, and {weights.url} cannot be reached.",
        f"Put the file of that address there, as {weights.file.name}, or begin without it: "
        f"--policy {SETTING} null, in a config policy: {{{SETTING}: 'null'}}",
    )


def is_reachable(url: str) -> bool:
    """Whether this machine could download it now, through a proxy if one is set."""
    try:
        with urlopen(Request(url, method="HEAD"), timeout=_WAIT_S):  # noqa: S310 - a constant
            return True
    except (OSError, ValueError, HTTPException):
        return False
