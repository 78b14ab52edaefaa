"""Cameras the whole way: recorded, trained on, served, and sent by a rollout as JPEG and raw.

The policy learns nothing in two steps. What counts is that every part hands the images on: their
names, shapes and pixels.
"""

import json
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from lerobot.datasets import LeRobotDataset
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors
from lerobot.policies.utils import prepare_observation_for_inference
from lerobot.rollout.configs import RolloutConfig
from lerobot.rollout.strategies.base import BaseStrategy

from lefleet import CheckpointRecord, TrainRequest, run_stage
from lefleet.edge import RemoteInferenceConfig, build_context
from lefleet.robots import (
    LeFleetSim,
    LeFleetSimConfig,
    LeFleetSimExpert,
    LeFleetSimExpertConfig,
)
from lefleet.server.capture import read_captures
from lefleet.sim.encode import ACTION_NAMES, FPS, ROBOT_TYPE, STATE_NAMES
from lefleet.sim.render import graphics_problem
from lefleet.sim.tasks import TASKS
from lefleet.stages.contract import CONTRACT_FILE, FEATURES
from lefleet_client import wire
from lefleet_client.remote import example_observation
from lerobot_policy_lefleet import LefleetConfig
from tests.cli.child import Child, reserved_port
from tests.cli.conftest import lefleet  # noqa: F401 - a fixture
from tests.samples import TINY_ACT

pytestmark = [
    pytest.mark.skipif(bool(graphics_problem()), reason="images cannot be rendered here"),
    pytest.mark.slow,
]
TASK = "push"
STATE = "observation.state"
CORNER = "observation.images.corner"
GRIPPER = "observation.images.gripper"
NAMES = {CORNER: "corner", GRIPPER: "gripper"}
HEIGHT, WIDTH = 48, 64
SHAPE = (HEIGHT, WIDTH, 3)
EPISODES, STEPS = 2, 12
SMALL = {**TINY_ACT, "chunk_size": "20", "n_action_steps": "20"}


class SeenRobot(LeFleetSim):
    """Remembers every observation that it gave away."""

    def __init__(self, config: LeFleetSimConfig) -> None:
        super().__init__(config)
        self.seen: list[dict[str, Any]] = []

    def get_observation(self) -> dict[str, Any]:
        self.seen.append(super().get_observation())
        return self.seen[-1]


def robot(folder: Path, **fields: Any) -> SeenRobot:
    settings = {"cameras": ["corner", "gripper"], "camera_height": HEIGHT, "camera_width": WIDTH}
    return SeenRobot(
        LeFleetSimConfig(id="arm", calibration_dir=folder, task=TASK, **settings | fields)
    )


def state_of(observation: dict[str, Any]) -> np.ndarray:
    return np.array([observation[name] for name in STATE_NAMES], np.float32)


@dataclass
class Recorded:
    folder: Path
    frames: list[dict[str, Any]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Recorded:
    """Short episodes of the expert, recorded as videos by LeRobot."""
    folder = tmp_path_factory.mktemp("recorded")
    arm = robot(folder, seed=0, time="stepped")
    arm.connect()
    expert = LeFleetSimExpert(LeFleetSimExpertConfig(robot_id="arm", calibration_dir=folder))
    expert.connect()
    image = {"dtype": "video", "shape": SHAPE, "names": ["height", "width", "channels"]}
    features = {key: FEATURES[key] for key in ("action", STATE)} | {CORNER: image, GRIPPER: image}
    dataset = LeRobotDataset.create(
        "local/cameras", FPS, features, root=folder / "data", robot_type=ROBOT_TYPE
    )
    for _ in range(EPISODES):
        for _ in range(STEPS):
            observation, action = arm.get_observation(), expert.get_action()
            arm.send_action(action)
            dataset.add_frame(
                {
                    "action": np.array([action[name] for name in ACTION_NAMES], np.float32),
                    STATE: state_of(observation),
                    **{key: observation[name] for key, name in NAMES.items()},
                    "task": TASKS[TASK].instruction,
                }
            )
        dataset.save_episode()
        arm.new_episode()
    dataset.finalize()
    arm.disconnect()
    return Recorded(folder / "data", arm.seen)


@pytest.fixture(scope="module")
def trained(recorded, tmp_path_factory) -> CheckpointRecord:
    """Two steps of LeRobot's training, by the train stage."""
    request = TrainRequest(dataset=str(recorded.folder), policy=SMALL, steps=2, batch_size=4)
    return run_stage(request, tmp_path_factory.mktemp("trained") / "train")


@dataclass
class Rolled:
    """What a robot saw and executed, and what its server got and answered."""

    seen: list[dict[str, Any]]
    executed: int
    exchanges: list[tuple[wire.Observation, wire.ActionChunk]]

    def rendered(self, observation: wire.Observation) -> dict[str, Any]:
        """What the robot saw in the state that it sent."""
        state = wire.decode_tensor(observation.vectors[STATE])
        return next(one for one in self.seen if np.array_equal(state_of(one), state))


@pytest.fixture(scope="module")
def rolled(trained, tmp_path_factory) -> dict[str, Rolled]:
    """A rollout with each codec on one server process, which captures all that it gets."""
    folder = tmp_path_factory.mktemp("rolled")
    found = {}
    with reserved_port() as port:
        endpoint = f"tcp/127.0.0.1:{port}"
        capture = "--capture={dir: ring, max: 1000}"
        arguments = (trained.path, f"--zenoh.listen=[{endpoint}]", capture, "--json")
        with Child("serve", *arguments, folder=folder) as server:
            server.wait_for(lambda child: child.out)
            for codec in ("jpeg", "raw"):
                found[codec] = roll(endpoint, codec, folder)
            server.signal(signal.SIGTERM)
            assert server.end() == 0, server.err
    said = {name: getattr(trained.contract, name) for name in wire.Contract.__struct_fields__}
    warm_up = example_observation(wire.Contract(**said))[STATE]
    for _, one in read_captures(folder / "ring"):
        observation = wire.OBSERVATION.decode(one.request.observation)
        if not np.array_equal(wire.decode_tensor(observation.vectors[STATE]), warm_up):
            answer = wire.CHUNK.decode(one.request.chunk)
            found[one.request.client_id].exchanges.append((observation, answer))
    return found


def roll(endpoint: str, codec: str, folder: Path) -> Rolled:
    """LeRobot's base strategy in real time, streamed."""
    arm = robot(folder, horizon=500)
    inference = RemoteInferenceConfig(connect=endpoint, image_codec=codec, client_id=codec)
    cfg = RolloutConfig(
        robot=arm.config,
        policy=LefleetConfig(),
        inference=inference,
        fps=FPS,
        duration=2,
        task=TASKS[TASK].instruction,
        return_to_initial_position=False,
    )
    ctx = build_context(cfg, Event(), arm)
    strategy = BaseStrategy(cfg.strategy)
    strategy.setup(ctx)
    try:
        strategy.run(ctx)
        executed = ctx.policy.inference.status.executed
    finally:
        strategy.teardown(ctx)
    return Rolled(arm.seen, executed, [])


def test_recorded_images_are_what_was_rendered(recorded):
    dataset = LeRobotDataset("local/cameras", root=recorded.folder)
    assert dataset.meta.camera_keys == [CORNER, GRIPPER]
    assert len(dataset) == len(recorded.frames) == EPISODES * STEPS
    for frame, observation in zip(dataset, recorded.frames, strict=True):
        for key, name in NAMES.items():
            pixels = frame[key].permute(1, 2, 0).numpy() * 255
            assert pixels.shape == SHAPE
            assert np.abs(pixels - observation[name]).mean() < 6, "a video loses little"


def test_the_checkpoint_knows_its_cameras(trained):
    features = json.loads((Path(trained.path) / "config.json").read_text())["input_features"]
    assert features[CORNER]["shape"] == features[GRIPPER]["shape"] == [3, HEIGHT, WIDTH]
    written = json.loads((Path(trained.path) / CONTRACT_FILE).read_text())
    assert written["cameras"] == {CORNER: list(SHAPE), GRIPPER: list(SHAPE)}
    assert written["vectors"] == {STATE: list(STATE_NAMES)}
    assert written["action_names"] == list(ACTION_NAMES)


def test_without_lefleet_json_the_training_data_says_the_same(trained, tmp_path, lefleet):  # noqa: F811
    bare = tmp_path / "bare"
    shutil.copytree(trained.path, bare, ignore=shutil.ignore_patterns(CONTRACT_FILE))
    contracts = []
    for folder in (trained.path, str(bare)):
        code, out, err = lefleet("contract", folder, "--json")
        assert code == 0, err
        contracts.append(json.loads(out))
    assert contracts[0]["contract"] == contracts[1]["contract"]
    assert contracts[0]["contract"]["cameras"] == {CORNER: list(SHAPE), GRIPPER: list(SHAPE)}
    assert contracts[1]["sources"][f"cameras.{CORNER}"].endswith("meta/info.json")


@pytest.mark.parametrize("codec", ["jpeg", "raw"])
def test_a_rollout_executes_what_the_policy_makes_of_its_images(rolled, codec):
    one = rolled[codec]
    assert len(one.exchanges) > 1
    assert one.executed > 1, "how many there are depends on how busy the machine is"
    states = [state_of(observation) for observation in one.seen]
    assert np.abs(states[0] - states[-1]).max() > 0.01, "it never moved"


@pytest.mark.parametrize("codec", ["jpeg", "raw"])
def test_images_arrive_under_their_names_with_their_pixels(rolled, codec):
    for observation, _ in rolled[codec].exchanges:
        rendered = rolled[codec].rendered(observation)
        arrived = wire.decode_images(observation.images)
        assert {one.codec for one in observation.images.values()} == {codec}
        assert arrived.keys() == {CORNER, GRIPPER}
        for key, name in NAMES.items():
            assert arrived[key].shape == SHAPE
            difference = np.abs(arrived[key].astype(int) - rendered[name])
            assert difference.mean() < 6
            assert difference.any() == (codec == "jpeg")


def test_raw_images_give_the_chunks_that_lerobot_computes_from_the_rendered_ones(trained, rolled):
    policy = ACTPolicy.from_pretrained(trained.path)
    before, after = make_pre_post_processors(policy.config, pretrained_path=trained.path)
    for observation, chunk in rolled["raw"].exchanges[:5]:
        rendered = rolled["raw"].rendered(observation)
        arrays = {STATE: state_of(rendered)} | {key: rendered[name] for key, name in NAMES.items()}
        batch = prepare_observation_for_inference(
            arrays, torch.device("cpu"), TASKS[TASK].instruction, ROBOT_TYPE
        )
        with torch.inference_mode():
            expected = after(policy.predict_action_chunk(before(batch)))
        actions = wire.decode_tensor(chunk.chunk_robot)
        np.testing.assert_allclose(actions, expected[0].numpy(), atol=1e-5)
