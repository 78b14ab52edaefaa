"""Where the time goes between a robot and its chunk."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lefleet_client.remote.observation import ArrayFrame, RobotFeatures
from lefleet_client.remote.policy import RemotePolicy
from lefleet_client.wire import Contract


@dataclass(frozen=True)
class Spread:
    """Milliseconds that half, and that 95 of 100 answers stayed below."""

    p50: float
    p95: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        p50, p95 = np.percentile(values, (50, 95))
        return cls(float(p50), float(p95))


@dataclass(frozen=True)
class PingReport:
    """`count` answers of one server after another; the parts of one answer add up to its total."""

    count: int
    servers: tuple[str, ...]
    image_codec: str
    total: Spread
    encode: Spread
    network: Spread
    queue: Spread
    prepare: Spread
    inference: Spread


def ping(policy: RemotePolicy, observation: ArrayFrame, count: int = 20) -> PingReport:
    """Ask `count` times, one after the other. The first answer is not counted: it may include the
    choice of the image codec.
    """
    if count < 1:
        raise ValueError(f"count: {count} is below 1")
    policy.infer(observation)
    chunks = [policy.infer(observation) for _ in range(count)]
    timings = [chunk.timing for chunk in chunks]
    return PingReport(
        count=count,
        servers=tuple(sorted({chunk.server for chunk in chunks})),
        image_codec=policy.image_codec,
        total=Spread.of([one.total_ms for one in timings]),
        encode=Spread.of([one.encode_ms for one in timings]),
        network=Spread.of([one.network_ms for one in timings]),
        queue=Spread.of([one.queue_wait_ms for one in timings]),
        prepare=Spread.of([one.prepare_ms for one in timings]),
        inference=Spread.of([one.inference_ms for one in timings]),
    )


def example_observation(
    contract: Contract, seed: int = 0, robot: RobotFeatures | None = None
) -> dict[str, NDArray[Any]]:
    """Random numbers and images that fit a contract, the same for the same seed.

    Images have the sizes of training, or those of the robot's own cameras.
    """
    rng = np.random.default_rng(seed)
    vectors = {
        key: rng.standard_normal(len(names), dtype=np.float32)
        for key, names in contract.vectors.items()
    }
    # Smooth, as photographs are: pure noise would make JPEGs larger than raw images.
    shapes = {**contract.cameras, **(robot.cameras if robot else {})}
    images = {key: _gradient(rng, *shapes[key]) for key in contract.cameras}
    return {**vectors, **images}


def _gradient(rng: np.random.Generator, height: int, width: int, _: int) -> NDArray[np.uint8]:
    """Colours that run from corner to corner, with a little noise as a camera has it."""
    across = np.linspace(0, 1, width)[None, :, None]
    down = np.linspace(0, 1, height)[:, None, None]
    first, second, third = rng.uniform(0, 200, (3, 1, 1, 3))
    noise = rng.uniform(0, 8, (height, width, 3))
    return (
        (first * across * down + second * (1 - across) * down + third * (1 - down) + noise)
        .clip(0, 255)
        .astype(np.uint8)
    )
