"""Training on data of a robot of one's own, whose units nobody scaled."""

import json
from pathlib import Path

import numpy as np
import pytest
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from safetensors.numpy import load_file

from lefleet import TrainRequest, run_stage
from lefleet.stages.normalisation import FAMILIES

JOINTS = ("pan.pos", "lift.pos", "gripper.pos")
OBJECT = ("object_x", "object_y")
STILL = 12.345678


@pytest.fixture(scope="module")
def degrees(tmp_path_factory) -> Path:
    """Two episodes of joints in degrees, of which one never moves, and an object in millimetres."""
    root = tmp_path_factory.mktemp("own") / "arm"

    def feature(names):
        return {"dtype": "float32", "shape": (len(names),), "names": list(names)}

    dataset = LeRobotDataset.create(
        repo_id="local/arm",
        fps=30,
        features={
            "action": feature(JOINTS),
            "observation.state": feature(JOINTS),
            "observation.environment_state": feature(OBJECT),
        },
        root=root,
        robot_type="so101_follower",
        use_videos=False,
    )
    numbers = np.random.default_rng(0)
    for _ in range(2):
        pan = np.linspace(-90, 90, 30) + numbers.normal(0, 1, 30)
        joints = np.stack([pan, np.full(30, STILL), 50 - pan / 2], 1).astype(np.float32)
        place = numbers.normal(200, 40, 2).astype(np.float32)
        for now in joints:
            frame = {"observation.state": now, "observation.environment_state": place}
            dataset.add_frame({**frame, "action": now, "task": "open the drawer"})
        dataset.save_episode()
    dataset.finalize()
    return root


@pytest.fixture(scope="module")
def trained(degrees, tmp_path_factory):
    """The record and the folder of a short training, with LeRobot reading the data itself."""
    folder = tmp_path_factory.mktemp("own") / "train"
    request = TrainRequest(dataset=str(degrees), steps=10, log_every=5, memory_data=False)
    return run_stage(request, folder), folder


def test_degrees_are_trained_with_the_dataset_s_statistics(trained):
    record, folder = trained
    config = json.loads((Path(record.path) / "config.json").read_text())
    assert config["normalization_mapping"] == FAMILIES["act"] | {"ENV": "MEAN_STD"}
    assert record.normalisation.mapping == config["normalization_mapping"]
    # Unscaled, the first losses on these joints are above 20.
    assert record.curve[0].loss < 3
    assert record.normalisation.sentence() in (folder / "log.txt").read_text()


def test_a_joint_that_never_moves_is_not_divided_by_rounding(trained, degrees):
    record, _ = trained
    assert record.normalisation.unscaled == {
        "action": ("lift.pos",),
        "observation.state": ("lift.pos",),
    }
    measured = json.loads((degrees / "meta" / "stats.json").read_text())
    for name in ("preprocessor", "postprocessor"):
        (file,) = Path(record.path).glob(f"policy_{name}_step_*normalizer*.safetensors")
        kept = load_file(file)
        for key in ("observation.state", "action"):
            expected = [measured[key]["std"][0], 1.0, measured[key]["std"][2]]
            assert kept[f"{key}.std"] == pytest.approx(expected)
            assert kept[f"{key}.mean"] == pytest.approx(measured[key]["mean"])


def test_lerobot_read_the_data_itself(trained):
    assert "served from memory" not in (trained[1] / "log.txt").read_text()
