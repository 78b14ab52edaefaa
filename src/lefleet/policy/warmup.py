"""The first chunks of a policy, and the proof that requests do not affect each other."""

from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lefleet.errors import BadInput
from lefleet.policy.pipeline import Pipeline, Processors
from lefleet.policy.request import Chunk, PolicyFrame, PolicyRequest, RequestRules
from lefleet.policy.served import PolicyRunner, ServedPolicy
from lefleet_client.wire import Contract

# No seeds of the warm-up: what its last request left behind must not look like one of these.
_OWN, _FOREIGN = 2**40, 2**40 + 1


def sample_request(
    contract: Contract, rules: RequestRules, seed: int, *, prefix: bool
) -> PolicyRequest:
    """A made-up request that fits the policy; every seed gives another one."""
    numbers = np.random.default_rng(seed)

    def frame() -> PolicyFrame:
        vectors: PolicyFrame = {
            key: numbers.uniform(-1, 1, size).astype(np.float32)
            for key, size in rules.vector_sizes.items()
        }
        images: PolicyFrame = {
            key: numbers.integers(0, 256, (*contract.cameras[key][:2], 3), np.uint8)
            for key in sorted(rules.cameras)
        }
        return {**vectors, **images}

    def left_over() -> NDArray[Any]:
        rows = max(1, rules.chunk_size // 2)
        return numbers.uniform(-1, 1, (rows, rules.action_size)).astype(np.float32)

    return PolicyRequest(
        frames=tuple(frame() for _ in range(rules.n_obs_steps)),
        task="warm-up",
        robot_type=contract.robot_type,
        seed=seed,
        inference_delay_steps=1 if prefix else 0,
        prefix_model=left_over() if prefix else None,
        prefix_robot=left_over() if prefix else None,
    )


def first_chunk(
    runner: PolicyRunner, processors: Processors, rules: RequestRules, contract: Contract
) -> Chunk:
    """A chunk right after a reset; BadInput with the reason where the policy gives none."""
    try:
        runner.reset()
        request = sample_request(contract, rules, 0, prefix=False)
        chunk = _answer(runner, processors.pipeline(rules), request)
    except Exception as error:
        raise BadInput(
            f"model: {contract.policy_type} cannot be served, its first chunk raises "
            f"{type(error).__name__}: {error}."
        ) from error
    if chunk.robot.ndim != 2 or chunk.robot.shape[1] != rules.action_size or not len(chunk.robot):
        raise BadInput(
            f"model: {contract.policy_type} cannot be served, its chunk has shape "
            f"{chunk.robot.shape} instead of steps x {rules.action_size}."
        )
    if not np.isfinite(chunk.robot).all():
        raise BadInput(
            f"model: this {contract.policy_type} cannot be served, its first chunk holds NaN or "
            "infinity.",
            "Its weights or its statistics are broken: train it again, or take another checkpoint.",
        )
    return chunk


def warm_up(served: ServedPolicy, inferences: int) -> None:
    """More first chunks, also with a prefix: what is slow at first is over when robots come."""
    pipeline = served.new_pipeline()
    for number in range(inferences):
        for prefix in _prefixes(served):
            request = sample_request(served.contract, served.rules, number, prefix=prefix)
            _answer(served.runner, pipeline, request)


def impurity(served: ServedPolicy) -> str:
    """How requests of two robots affect each other; empty if they do not.

    The same request is answered after itself, and then with another robot's in between, in the
    order that workers could take: prepared before it, computed after it.
    """
    for prefix in _prefixes(served):
        own = sample_request(served.contract, served.rules, _OWN, prefix=prefix)
        foreign = sample_request(served.contract, served.rules, _FOREIGN, prefix=prefix)
        mine, other = served.new_pipeline(), served.new_pipeline()
        alone = [_answer(served.runner, mine, own) for _ in range(2)]
        prepared = mine.prepare(own)
        _answer(served.runner, other, foreign)
        among_others = mine.finish(served.predict(prepared))
        if len({_bytes(chunk) for chunk in (*alone, among_others)}) > 1:
            kind = "with" if prefix else "without"
            what = f"the same request, {kind} a prefix,"
            return f"{what} gave a different chunk after another robot's request"
    return ""


def measure(served: ServedPolicy, inferences: int = 20) -> float:
    """Median seconds that one request takes of the thread that infers."""
    pipeline = served.new_pipeline()
    seconds = []
    for number in range(inferences):
        request = sample_request(
            served.contract, served.rules, number, prefix=served.capabilities.supports_rtc
        )
        prepared = pipeline.prepare(request)
        start = perf_counter()
        pipeline.finish(served.predict(prepared))
        seconds.append(perf_counter() - start)
    return median(seconds)


def _prefixes(served: ServedPolicy) -> tuple[bool, ...]:
    """Whether requests carry a prefix: with real-time chunking, both kinds come."""
    return (False, True) if served.capabilities.supports_rtc else (False,)


def _answer(runner: PolicyRunner, pipeline: Pipeline, request: PolicyRequest) -> Chunk:
    return pipeline.finish(runner.predict(pipeline.prepare(request)))


def _bytes(chunk: Chunk) -> tuple[bytes, bytes]:
    return chunk.model.tobytes(), chunk.robot.tobytes()
