"""One robot's processors: nothing of them is another's, and inputs are left alone."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from lefleet.policy import BadRequest
from tests.policy.asking import ask, request_for, rows_for, same


def frozen(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


@contextmanager
def torch_warns_always():
    """Not only the first time in a process."""
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(False)


def test_views_that_nobody_may_write_to_are_read_without_a_warning(policy_of):
    served = policy_of("act_images")
    request = request_for(served)
    before = {key: value.copy() for key, value in request.frames[0].items()}
    read_only = request_for(
        served, frames=({key: frozen(value) for key, value in request.frames[0].items()},)
    )
    with warnings.catch_warnings(), torch_warns_always():
        warnings.simplefilter("error")
        chunk = ask(served, read_only)
    assert same(chunk, ask(served, request))
    for frame in (request.frames[0], read_only.frames[0]):
        assert all((value == before[key]).all() for key, value in frame.items())


def test_images_may_lie_in_memory_as_they_like(policy_of):
    served = policy_of("act_images")
    request = request_for(served)
    mirrored = {
        key: value[:, ::-1] if value.ndim == 3 else value
        for key, value in request.frames[0].items()
    }
    copied = {key: value.copy() for key, value in mirrored.items()}
    asked = [request_for(served, frames=(frame,)) for frame in (mirrored, copied)]
    assert same(*(ask(served, one) for one in asked))


def test_robots_do_not_mix_up_their_states(policy_of):
    served = policy_of("relative_act")
    requests = [request_for(served, seed) for seed in range(8)]
    alone = [ask(served, request) for request in requests]
    pipelines = [served.new_pipeline() for _ in requests]
    with ThreadPoolExecutor(4) as pool:
        prepared = list(pool.map(lambda one, asked: one.prepare(asked), pipelines, requests))
    actions = [served.predict(one) for one in reversed(prepared)][::-1]
    chunks = [pipeline.finish(one) for pipeline, one in zip(pipelines, actions, strict=True)]
    assert all(same(*pair) for pair in zip(alone, chunks, strict=True))


def test_one_pipeline_for_two_robots_would_mix_them_up(policy_of):
    """What the copies are for."""
    served = policy_of("relative_act")
    one, other = request_for(served, 1), request_for(served, 2)
    shared = served.new_pipeline()
    prepared = shared.prepare(one)
    shared.prepare(other)
    assert not same(shared.finish(served.predict(prepared)), ask(served, one))


def test_a_pipeline_forgets_at_an_episodes_end(policy_of):
    served = policy_of("relative_act")
    pipeline = served.new_pipeline()
    for seed in (1, 2):
        request = request_for(served, seed)
        assert same(
            pipeline.finish(served.predict(pipeline.prepare(request))), ask(served, request)
        )
        pipeline.reset()


@pytest.mark.parametrize(
    ("name", "given", "missing"),
    [
        ("rtc_flow", "prefix_robot", "prefix_model: missing"),
        ("rtc_relative", "prefix_model", "prefix_robot: missing"),
    ],
)
def test_the_prefix_that_the_policy_needs_must_be_there(policy_of, name, given, missing):
    served = policy_of(name)
    request = request_for(served, **{given: rows_for(served, 3)})
    with pytest.raises(BadRequest, match=missing):
        served.new_pipeline().prepare(request)


def test_a_bad_request_costs_the_next_one_nothing(policy_of):
    served = policy_of("act_environment")
    pipeline = served.new_pipeline()
    good = request_for(served)
    with pytest.raises(BadRequest):
        pipeline.prepare(request_for(served, frames=({},)))
    assert same(pipeline.finish(served.predict(pipeline.prepare(good))), ask(served, good))
