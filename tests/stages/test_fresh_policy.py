"""Somebody's arm without cameras: a state and an action, trained on by LeRobot's own programs."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.factory import make_pre_post_processors
from safetensors.torch import load_file

from lefleet import TrainRequest, run_stage
from lefleet.errors import BadInput
from lefleet.rollouts.policy import BatchPolicy
from lefleet.sim.encode import encode
from lefleet.stages.contract import FEATURES, require_simulable
from lefleet.stages.folder import RECORD
from lefleet.stages.fresh_policy import write_policy
from lefleet.stages.references import CheckpointReference, made_by

JOINTS = ["shoulder.pos", "elbow.pos", "gripper.pos"]
STATE, ENVIRONMENT = "observation.state", "observation.environment_state"
STILL = 12.345678
MOVED = np.array([1, -1, 0], np.float32)
SMALL = {"dim_model": "16", "n_heads": "2", "dim_feedforward": "16", "n_encoder_layers": "1"}


@pytest.fixture(scope="module")
def arm(tmp_path_factory) -> Path:
    """Joints in degrees, of which one never moves."""
    folder = tmp_path_factory.mktemp("arm") / "dataset"
    vector = {"dtype": "float32", "shape": (3,), "names": JOINTS}
    dataset = LeRobotDataset.create(
        "local/arm", 20, {STATE: vector, "action": vector}, root=folder, use_videos=False
    )
    numbers = np.random.default_rng(0)
    for _ in range(3):
        for _ in range(12):
            moving = numbers.uniform([-90, -120], [90, 0])
            joints = np.array([*moving, STILL], np.float32)
            dataset.add_frame({STATE: joints, "action": joints + MOVED, "task": "park"})
        dataset.save_episode()
    dataset.finalize()
    return folder


@pytest.fixture(scope="module")
def trained(arm, tmp_path_factory) -> Path:
    """A stage folder with checkpoints at steps 2 and 4."""
    folder = tmp_path_factory.mktemp("trained") / "train"
    request = TrainRequest(dataset=str(arm), steps=4, save_every=2, log_every=1, policy=SMALL)
    run_stage(request, folder)
    return folder


def weights(stage: Path) -> Path:
    return stage / "training/checkpoints/last/pretrained_model"


def test_the_checkpoint_makes_the_environment_state_and_its_contract_has_the_robots_names(trained):
    assert made_by(weights(trained)) == {ENVIRONMENT}
    contract = json.loads((weights(trained) / "lefleet.json").read_text())
    assert contract["vectors"] == {STATE: JOINTS}
    assert contract["action_names"] == JOINTS
    config = json.loads((weights(trained) / "config.json").read_text())
    assert config["type"] == "act"
    assert config["input_features"].keys() == {STATE, ENVIRONMENT}
    assert config["normalization_mapping"]["ENV"] == config["normalization_mapping"]["STATE"]


def test_a_joint_that_is_not_where_it_always_was_does_not_drown_the_others(trained):
    """Its spread is nothing: divided by that, three degrees would be millions."""
    config = PreTrainedConfig.from_pretrained(weights(trained))
    before, _ = make_pre_post_processors(config, pretrained_path=str(weights(trained)))
    seen = before({STATE: torch.tensor([0.0, -60.0, STILL + 3])})
    assert torch.equal(seen[ENVIRONMENT], seen[STATE])
    assert seen[ENVIRONMENT][0, 2].item() == pytest.approx(3.0, abs=1e-3)
    assert seen[ENVIRONMENT][0, :2].abs().max() < 1


def test_an_interrupted_training_is_resumed_with_the_step(arm, trained, tmp_path):
    cut = tmp_path / "train"
    shutil.copytree(trained, cut, symlinks=True)
    (cut / RECORD).unlink()
    shutil.rmtree(cut / "training/checkpoints/000004")
    last = cut / "training/checkpoints/last"
    last.unlink()
    last.symlink_to("000002")
    config = weights(cut) / "train_config.json"
    config.write_text(config.read_text().replace(str(trained), str(cut)))
    request = TrainRequest(dataset=str(arm), steps=4, save_every=2, log_every=1, policy=SMALL)
    record = run_stage(request, cut)
    assert (record.steps, record.resumed_at) == (4, (2,))
    assert made_by(Path(record.path)) == {ENVIRONMENT}


def test_a_training_continues_from_such_a_checkpoint_also_without_memory_data(
    arm, trained, tmp_path
):
    request = TrainRequest(dataset=str(arm), init=str(trained), steps=2, memory_data=False)
    record = run_stage(request, tmp_path / "train")
    assert made_by(Path(record.path)) == {ENVIRONMENT}
    assert record.init_digest
    assert not (tmp_path / "train" / "fresh_policy").exists()


def test_settings_that_lerobot_refuses_are_bad_input_and_nothing_starts(arm, tmp_path):
    for policy, problem in (
        (
            {"n_action_steps": "99", "chunk_size": "5"},
            "policy: LeRobot refuses these settings: .*99",
        ),
        ({"no_such_setting": "1"}, "policy: LeRobot refuses these settings: .*no_such_setting"),
        ({"dim_model": "many"}, "policy: LeRobot refuses these settings: .*many"),
    ):
        with pytest.raises(BadInput, match=problem):
            run_stage(TrainRequest(dataset=str(arm), policy=policy), tmp_path / "train")
        assert not (tmp_path / "train").exists()


def test_a_policy_that_needs_a_camera_is_refused_before_its_training(arm, tmp_path):
    request = TrainRequest(dataset=str(arm), policy_type="vqbet")
    with pytest.raises(BadInput, match=r"dataset: vqbet needs a camera, and the dataset has only"):
        run_stage(request, tmp_path / "train")


FLAGS = [f"--policy.{name}={value}" for name, value in SMALL.items()]
SIMULATED = {key: FEATURES[key] for key in (STATE, "action")}


def test_the_seed_determines_the_weights(tmp_path):
    before = torch.random.get_rng_state()
    made = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_policy(tmp_path / name, "act", FLAGS, SIMULATED, seed)
        made.append(load_file(tmp_path / name / "model.safetensors"))
    a, b, c = made
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert not all(torch.equal(a[key], c[key]) for key in a)
    assert torch.equal(before, torch.random.get_rng_state())


def test_in_the_simulation_such_a_policy_sees_its_state_only(tmp_path):
    write_policy(tmp_path, "act", [*FLAGS, "--policy.n_action_steps=1"], SIMULATED, 0)
    require_simulable(CheckpointReference(str(tmp_path), ""), "checkpoint")
    policy = BatchPolicy(str(tmp_path), "cpu")
    encoded = encode(np.random.default_rng(0).normal(0.3, 0.2, 39), "push")
    seen = {"agent_pos": encoded.state, "environment_state": encoded.environment}
    elsewhere = seen | {"environment_state": encoded.environment + 1}
    moved = seen | {"agent_pos": encoded.state + 1}
    actions = []
    for one in (seen, elsewhere, moved):
        policy.reset(0)
        actions.append(policy.act([one], ["t"]))
    assert np.array_equal(actions[0], actions[1])
    assert not np.array_equal(actions[0], actions[2])
