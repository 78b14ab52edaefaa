"""One robot's processors: what they remember is their own, and inputs are left alone."""

import json
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from lerobot.processor import ProcessorStepRegistry, TokenizerProcessorStep

from lefleet.policy import BadRequest, load_policy
from tests.policy.asking import ask, request_for, rows_for, same
from tests.policy.tiny import model


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


def test_read_only_views_are_read_without_a_warning(policy_of):
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


class WordTokenizer:
    """As large as a language model's, and called as those of transformers are."""

    def __init__(self, words: int) -> None:
        self.numbers = {f"word {number}": number for number in range(words)}
        self.merges = [(f"word {number}", f"part {number}") for number in range(words)]

    def __call__(self, text: list[str], max_length: int, **_: object) -> dict[str, torch.Tensor]:
        rows = [[hash(word) % len(self.numbers) for word in one.split()] for one in text]
        padded = [(row + [0] * max_length)[:max_length] for row in rows]
        mask = [[number < len(row) for number in range(max_length)] for row in rows]
        return {"input_ids": torch.tensor(padded), "attention_mask": torch.tensor(mask)}


@ProcessorStepRegistry.register("tests_tokenizer")
@dataclass
class WordTokenizerStep(TokenizerProcessorStep):
    """LeRobot's own step, with a tokenizer that is made on the spot."""

    def __post_init__(self) -> None:
        self.input_tokenizer = WordTokenizer(10_000)


@pytest.fixture
def with_tokenizer(checkpoint_of, tmp_path):
    """A checkpoint whose preprocessor tokenizes its task."""
    shutil.copytree(checkpoint_of("relative_act"), tmp_path, dirs_exist_ok=True)
    file = tmp_path / "policy_preprocessor.json"
    pipeline = json.loads(file.read_text())
    step = {"registry_name": "tests_tokenizer", "config": {"max_length": 6}}
    pipeline["steps"].insert(-1, step)
    file.write_text(json.dumps(pipeline))
    return load_policy(model(tmp_path))


def test_a_tokenizer_is_shared_by_robots_and_the_step_around_it_is_not(with_tokenizer):
    pipelines = [with_tokenizer.new_pipeline() for _ in range(2)]
    one, other = (
        next(step for step in pipeline._before.steps if isinstance(step, WordTokenizerStep))
        for pipeline in pipelines
    )
    assert one is not other
    assert one.input_tokenizer is other.input_tokenizer
    tokens = [
        pipeline.prepare(request_for(with_tokenizer, task=task)).batches[-1]
        for pipeline, task in zip(pipelines, ("reach", "go back home"), strict=True)
    ]
    key = "observation.language.attention_mask"
    assert [int(batch[key].sum()) for batch in tokens] == [1, 3]


def test_robots_that_share_a_tokenizer_are_not_mixed_up(with_tokenizer):
    requests = [request_for(with_tokenizer, seed, task="go " * seed) for seed in range(8)]
    alone = [ask(with_tokenizer, request) for request in requests]
    pipelines = [with_tokenizer.new_pipeline() for _ in requests]
    with ThreadPoolExecutor(4) as pool:
        prepared = list(pool.map(lambda one, asked: one.prepare(asked), pipelines, requests))
    chunks = [
        pipeline.finish(with_tokenizer.predict(one))
        for pipeline, one in zip(pipelines, prepared, strict=True)
    ]
    assert all(same(*pair) for pair in zip(alone, chunks, strict=True))
