"""Which checkpoint is served, on which device, and what a manifest says about its columns."""

from typing import Annotated, Literal

from msgspec import Meta, field

from lefleet.records.border import Strict

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
"""auto: as the checkpoint says. Otherwise the precision that chunks are computed in."""

CameraSide = Annotated[int, Meta(ge=1, le=65_535)]
ServingMode = Literal["auto", "shared", "exclusive"]


class ModelSettings(Strict, frozen=True, kw_only=True):
    """A checkpoint and how it is run."""

    repo_or_path: str
    """A train stage folder, a pretrained_model folder, or a hub id as user/name."""
    revision: str = "main"
    """Of the hub. A folder has none; its digest takes the place in keys."""
    dtype: Dtype = "auto"
    device: str = "cpu"
    """auto (the GPU, and the CPU where there is none), cpu, cuda, cuda:N or mps."""
    compile: bool = False
    peft: str = ""
    """An adapter to put on the checkpoint; one that lies in the checkpoint's folder is found."""
    discover_packages: tuple[str, ...] = ()
    """Packages that register policies; they are imported first."""


class RtcSettings(Strict, frozen=True, kw_only=True):
    """Real-time chunking, as LeRobot's RTCConfig has it."""

    enabled: bool = True
    execution_horizon: Annotated[int, Meta(ge=1, le=10_000)] = 10
    max_guidance_weight: Annotated[float, Meta(gt=0, le=1e6)] = 10.0
    prefix_attention_schedule: Literal["ZEROS", "ONES", "LINEAR", "EXP"] = "LINEAR"


class ContractOverride(Strict, frozen=True, kw_only=True):
    """What a person knows about the columns where no file says it."""

    action_names: tuple[str, ...] = ()
    vectors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Ordered names of each input vector, by feature key."""
    cameras: dict[str, tuple[CameraSide, CameraSide, CameraSide]] = field(default_factory=dict)
    """Height, width and channels that the policy was trained with, by feature key."""
    fps: Annotated[float, Meta(gt=0, le=10_000)] | None = None
    robot_type: str = ""
