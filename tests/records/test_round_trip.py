"""Every request and record survives its file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.records import (
    Corrections,
    EpisodeRecord,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    ProfileRequest,
    Record,
    Request,
    TrainRequest,
    decode,
    encode,
)
from tests.samples import (
    checkpoint_record,
    dataset_record,
    envelope_record,
    episode,
    evaluation_record,
    mix_record,
)

REQUESTS = [
    ExpertDemos(tasks=("push", "reach"), episodes_per_task=3, noise=0.25, seed=7),
    ExistingDataset(repo_id="user/name", root="/data", revision="main", tasks=("a text",), seed=1),
    Corrections(
        checkpoint="c", tasks=("push",), mode="relabel", patience=5, max_attempts_per_task=9
    ),
    TrainRequest(
        dataset="d",
        tasks=("push",),
        policy_type="diffusion",
        init="i",
        policy={"horizon": "16"},
        steps=10,
        batch_size=2,
        learning_rate=3e-4,
        save_every=5,
        log_every=1,
        num_workers=1,
        device="cuda",
        seed=3,
        rename_map={"a": "b"},
        memory_data=False,
        extra_args=("--x=1", "--y"),
    ),
    EvaluateRequest(checkpoint="c", workers=2, episode_length=9, device="cuda"),
    ImproveRequest(checkpoint="c", demos="d", method="harvest", mixing_ratio=0.3),
    ProfileRequest(checkpoint="c", tasks=("push",), delays=(0.0, 30.5), jitter=5.0, merge="append"),
]
RECORDS = [
    dataset_record(),
    checkpoint_record(),
    evaluation_record(),
    evaluation_record(),
    mix_record(),
    envelope_record(),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda value: type(value).__name__)
def test_a_request_comes_back_from_its_file_equal_and_of_its_own_type(request_):
    back = decode(encode(request_), Request, "file")
    assert back == request_
    assert type(back) is type(request_)


@pytest.mark.parametrize("record", RECORDS, ids=lambda value: type(value).__name__)
def test_a_record_comes_back_from_its_file_equal_and_of_its_own_type(record):
    back = decode(encode(record), Record, "file")
    assert back == record
    assert type(back) is type(record)


@given(
    dataset=st.text(),
    policy=st.dictionaries(st.text(), st.text(), max_size=3),
    extra=st.lists(st.text(), max_size=3).map(tuple),
    rate=st.floats(min_value=1e-12, max_value=1.0),
    seed=st.integers(min_value=0, max_value=2**63 - 1),
)
def test_any_text_and_number_of_a_request_survives(dataset, policy, extra, rate, seed):
    request = TrainRequest(
        dataset=dataset, policy=policy, extra_args=extra, learning_rate=rate, seed=seed
    )
    assert decode(encode(request), Request, "file") == request


@given(progress=st.floats(0, 1), seed=st.integers(0, 2**63 - 1), success=st.booleans())
def test_any_episode_survives(progress, seed, success):
    line = episode(seed=seed, success=success, progress=progress, policy="baseline", video="v.mp4")
    assert decode(encode(line), EpisodeRecord, "file") == line
