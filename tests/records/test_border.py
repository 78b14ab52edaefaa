"""Bytes to structs: what is wrong is named."""

import math

import pytest

from lefleet.errors import BadInput
from lefleet.records import (
    Corrections,
    DatasetRecord,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    Request,
    TrainRequest,
    decode,
    encode,
    validated,
)
from tests.samples import dataset_record


def problem_of(data: bytes, kind) -> str:
    with pytest.raises(BadInput) as caught:
        decode(data, kind, "request.json")
    return str(caught.value)


def test_a_wrong_value_is_reported_with_its_source_and_field():
    text = problem_of(b'{"kind": "expert", "noise": 2}', Request)
    assert text == "request.json: noise: Expected `float` <= 1.0."


def test_a_wrong_value_deep_inside_is_reported_with_its_path():
    data = encode(dataset_record()).replace(b'"attempted": 3', b'"attempted": "three"')
    text = problem_of(data, DatasetRecord)
    assert text.startswith("request.json: tallies[...].attempted: ")


def test_an_unknown_field_is_an_error_that_names_it():
    text = problem_of(b'{"kind": "expert", "nois": 0.1}', Request)
    assert "request.json" in text
    assert "`nois`" in text


def test_a_missing_field_is_an_error_that_names_it():
    text = problem_of(b'{"kind": "train"}', Request)
    assert "`dataset`" in text


def test_an_unknown_kind_is_an_error_that_names_the_field():
    text = problem_of(b'{"kind": "dance"}', Request)
    assert text.startswith("request.json: kind: ")
    assert "dance" in text


@pytest.mark.parametrize("data", [b"", b"{", b"not json", b'{"kind": "expert"} x'])
def test_what_is_no_json_is_an_error_that_names_the_source(data):
    assert problem_of(data, Request).startswith("request.json: ")


def test_encoded_text_is_indented_and_ends_with_a_newline():
    text = encode(ExpertDemos(tasks=("push",))).decode()
    assert text.startswith('{\n  "kind": "expert",\n')
    assert text.endswith("}\n")


def test_a_valid_request_stays_as_it_is():
    request = TrainRequest(dataset="demos", policy={"dim_model": "8"}, extra_args=("--a=b",))
    assert validated(request) == request


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (ExpertDemos(episodes_per_task=0), "episodes_per_task"),
        (ExpertDemos(noise=2.0), "noise"),
        (ExpertDemos(noise=-0.1), "noise"),
        (ExpertDemos(noise=math.nan), "noise"),
        (ExpertDemos(tasks=()), "tasks"),
        (ExpertDemos(seed=-1), "seed"),
        (ExistingDataset(tasks=("push",), episodes_per_task=-1), "episodes_per_task"),
        (Corrections(checkpoint="c", mode="guess"), "mode"),
        (Corrections(checkpoint="c", patience=0), "patience"),
        (TrainRequest(dataset="d", steps=0), "steps"),
        (TrainRequest(dataset="d", batch_size=0), "batch_size"),
        (TrainRequest(dataset="d", learning_rate=0.0), "learning_rate"),
        (TrainRequest(dataset="d", learning_rate=1.5), "learning_rate"),
        (TrainRequest(dataset="d", learning_rate=math.inf), "learning_rate"),
        (TrainRequest(dataset="d", log_every=0), "log_every"),
        (EvaluateRequest(checkpoint="c", episodes_per_task=0), "episodes_per_task"),
        (EvaluateRequest(checkpoint="c", batch_size=0), "batch_size"),
        (EvaluateRequest(checkpoint="c", videos_per_task=-1), "videos_per_task"),
        (ImproveRequest(checkpoint="c", demos="d", mixing_ratio=1.0), "mixing_ratio"),
        (ImproveRequest(checkpoint="c", demos="d", mixing_ratio=-0.5), "mixing_ratio"),
        (ImproveRequest(checkpoint="c", demos="d", method="dream"), "method"),
    ],
)
def test_a_constructed_request_that_breaks_a_constraint_is_bad_input(request_, field):
    with pytest.raises(BadInput, match=f"^{field}: ") as caught:
        validated(request_)
    assert caught.value.exit_code == 2
