"""Seeds by purpose, and the ranges that fields of requests share."""

from enum import IntEnum
from typing import Annotated, Literal

from msgspec import Meta

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Tasks = Annotated[tuple[str, ...], Meta(min_length=1)]
ImageSide = Annotated[int, Meta(ge=32, le=1024)]
"""Of images that are recorded: the encoder of LeRobot's videos crashes on smaller ones."""
DEFAULT_TASKS = ("easy3",)
Level = Annotated[float, Meta(gt=0.0, le=0.5)]
Effect = Annotated[float, Meta(gt=0.0, lt=1.0)]
LearningRate = Annotated[float, Meta(gt=0.0, le=1.0)]
MixingRatio = Annotated[float, Meta(ge=0.0, lt=1.0)]
Metric = Literal["success", "progress"]
Scope = Literal["pooled", "per_task"]


class SeedBlock(IntEnum):
    """First seed of each purpose; a block holds 100 million.

    A seed stands for one initial state. Data is collected, policies are judged and candidates are
    gated on different seeds, so that no policy is examined on what it was taught.
    """

    COLLECT = 0
    EVALUATE = 100_000_000
    IMPROVE = 200_000_000
    GATE = 300_000_000
    COMPARE = 500_000_000
