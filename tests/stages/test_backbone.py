"""Weights and libraries that a training would miss are known before it starts."""

import json

import pytest
import torch
import torchvision

from lefleet.errors import BadInput
from lefleet.records import Rung, TrainRequest
from lefleet.stages import backbone
from lefleet.stages.backbone import (
    DEFAULT,
    FILES,
    needed_weights,
    require_weights,
    torch_cache,
)

VECTOR = {"dtype": "float32", "shape": [2], "names": ["a.pos", "b.pos"]}
IMAGE = {"dtype": "video", "shape": [24, 32, 3], "names": ["height", "width", "channels"]}
STATE_ONLY = {"features": {"action": VECTOR, "observation.state": VECTOR}}
CAMERA = {"features": STATE_ONLY["features"] | {"observation.images.top": IMAGE}}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache of torch, and no way out of this machine."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    return tmp_path / "hub" / "checkpoints"


def needed(info=CAMERA, checkpoint=None, **changes):
    return needed_weights(TrainRequest(dataset="d", **changes), info, checkpoint)


def test_the_names_of_files_are_torchvision_s():
    for name, file in FILES.items():
        assert torchvision.models.get_weight(name).url == f"{backbone._SOURCE}{file}"


@pytest.mark.parametrize("variables", [{}, {"TORCH_HOME": ""}, {"TORCH_HOME": "~/elsewhere"}])
def test_the_cache_is_torch_s(monkeypatch, tmp_path, variables):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    assert str(torch_cache()) == f"{torch.hub.get_dir()}/checkpoints"


def test_cameras_need_weights_that_must_be_here_or_within_reach(cache):
    weights = needed()
    assert (weights.name, weights.file) == (DEFAULT, cache / "resnet18-f37072fd.pth")
    with pytest.raises(BadInput, match=r"^policy: with cameras .* cannot be reached") as caught:
        require_weights(weights)
    assert "--policy pretrained_backbone_weights null" in caught.value.remedy
    assert weights.file.name in caught.value.remedy
    cache.mkdir(parents=True)
    weights.file.write_bytes(b"weights")
    require_weights(weights)


@pytest.mark.parametrize("value", ["null", "None", "~"])
def test_a_policy_that_begins_without_them_needs_none(value):
    assert needed(policy={"pretrained_backbone_weights": value}) is None
    assert needed(extra_args=(f"--policy.pretrained_backbone_weights={value}",)) is None


def test_other_weights_have_another_file():
    named = needed(policy={"pretrained_backbone_weights": "ResNet50_Weights.IMAGENET1K_V2"})
    assert named.file.name == "resnet50-11ad3fa6.pth"


def test_state_data_and_other_families_need_none():
    assert needed(STATE_ONLY) is None
    assert needed(policy_type="smolvla") is None


def test_a_checkpoint_says_what_it_begins_with():
    assert needed(checkpoint={"type": "act", "pretrained_backbone_weights": None}) is None
    assert needed(checkpoint={"type": "act", "pretrained_backbone_weights": DEFAULT}) is not None


def test_a_rung_is_asked_as_a_request_is():
    assert needed_weights(Rung(name="a"), CAMERA, None) == needed()


def test_a_training_with_cameras_is_refused_before_anything_starts(tmp_path):
    from lefleet import run_stage
    from lefleet.records import ExpertDemos
    from tests.samples import dataset_record, finished_stage

    data = tmp_path / "data"
    (data / "meta").mkdir(parents=True)
    info = CAMERA | {"fps": 30, "total_episodes": 1, "robot_type": "arm"}
    (data / "meta" / "info.json").write_text(json.dumps(info))
    spread = {"min": [0, 0], "max": [9, 9], "mean": [3, 3], "std": [2, 2]}
    stats = {"action": spread, "observation.state": spread, "observation.images.top": {"mean": [0]}}
    (data / "meta" / "stats.json").write_text(json.dumps(stats))
    demos = finished_stage(tmp_path / "demos", ExpertDemos(), dataset_record(root=str(data)))
    with pytest.raises(BadInput, match=r"^policy: with cameras"):
        run_stage(TrainRequest(dataset=str(demos)), tmp_path / "train")
    assert not (tmp_path / "train").exists()
