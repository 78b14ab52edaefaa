"""Observation to server to chunk, over a real network: LeRobot's own chunks, bit for bit."""

import numpy as np
import pytest
import torch

from lefleet.policy import Chunk
from lefleet_client.remote import RemotePolicy
from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.policy import tiny
from tests.policy.asking import TASK, Local, frames_for, rows_for, same
from tests.server.serving import serving


@pytest.fixture
def remote_and_local(request, checkpoint_of, policy_of, router):
    """A remote policy, the served one, and LeRobot's own, all of one checkpoint."""
    folder, policy = checkpoint_of(request.param), policy_of(request.param)
    with (
        ZenohTransport.open(ZenohSettings(connect=(router.endpoint,))) as node,
        serving(folder, policy, node),
        RemotePolicy(
            router.endpoint, "test", task=TASK, image_codec="raw", wants_rtc=True, timeout_s=30
        ) as remote,
    ):
        yield remote, policy, Local(folder)


def of(*names: str):
    return pytest.mark.parametrize("remote_and_local", names, indirect=True)


@of("act_images", "act_environment", "act_state", "relative_act", "rtc_flow")
def test_a_chunk_that_travelled_is_lerobots_own(remote_and_local):
    remote, policy, local = remote_and_local
    for seed, frame in enumerate(frames_for(policy, 4)):
        answer = remote.infer(frame, noise_seed=seed)
        assert same(Chunk(answer.model, answer.robot), local.chunk(frame, seed))


@of("diffusion_history")
def test_with_history_it_is_what_lerobots_queues_give(remote_and_local):
    remote, policy, local = remote_and_local
    episode = frames_for(policy, 9)
    steps = policy.capabilities.n_action_steps
    assert remote.ack.capabilities.n_obs_steps == 2
    for step, frame in enumerate(episode):
        torch.manual_seed(step)
        action = local.after(local.policy.select_action(local.batch(frame)))
        if step % steps == 0:
            history = episode[max(0, step - 1) : step]
            chunk = remote.infer(frame, history=history, noise_seed=step).robot
        assert chunk[step % steps].tobytes() == action[0].numpy().tobytes()


@of("rtc_flow")
def test_a_prefix_that_travelled_guides_as_a_local_one(remote_and_local):
    remote, policy, local = remote_and_local
    local.with_rtc()
    (frame,) = frames_for(policy, 1)
    assert remote.ack.capabilities.supports_rtc
    for rows in (1, 3, policy.capabilities.chunk_size):
        left = rows_for(policy, rows)
        answer = remote.infer(frame, prefix_model=left, inference_delay_steps=2, noise_seed=5)
        own = local.chunk(frame, 5, inference_delay=2, prev_chunk_left_over=torch.from_numpy(left))
        assert same(Chunk(answer.model, answer.robot), own)
        free = remote.infer(frame, noise_seed=5)
        assert not np.array_equal(free.model, answer.model)


@of("rtc_relative")
def test_a_relative_prefix_is_anchored_to_this_requests_state(remote_and_local):
    remote, policy, local = remote_and_local
    local.with_rtc()
    left_model, left_robot = rows_for(policy, 5, 1), rows_for(policy, 5, 2)
    for seed, frame in enumerate(frames_for(policy, 3)):
        answer = remote.infer(
            frame,
            prefix_model=left_model,
            prefix_robot=left_robot,
            inference_delay_steps=2,
            noise_seed=seed,
        )
        batch = local.batch(frame)
        prefix = local.anchored(left_robot)
        torch.manual_seed(seed)
        actions = local.policy.predict_action_chunk(
            batch, inference_delay=2, prev_chunk_left_over=prefix
        )
        assert same(Chunk(answer.model, answer.robot), local.finished(actions))


@of("rtc_flow")
def test_without_a_seed_every_request_has_its_own(remote_and_local):
    remote, policy, _ = remote_and_local
    (frame,) = frames_for(policy, 1)
    chunks = [remote.infer(frame).model.tobytes() for _ in range(3)]
    assert len(set(chunks)) == 3


@of("act_images")
def test_jpeg_changes_pixels_and_not_channels(remote_and_local, router):
    """A strong red picture must not be answered as a blue one would be."""
    remote, policy, _ = remote_and_local
    (frame,) = frames_for(policy, 1)
    plain = {
        key: np.zeros((tiny.HEIGHT, tiny.WIDTH, 3), np.uint8) for key in (tiny.TOP, tiny.WRIST)
    }
    red, blue = (frame | {key: image.copy() for key, image in plain.items()} for _ in range(2))
    red[tiny.TOP][..., 0] = 255
    blue[tiny.TOP][..., 2] = 255
    expected = {name: remote.infer(seen).robot for name, seen in (("red", red), ("blue", blue))}
    with RemotePolicy(router.endpoint, "test", image_codec="jpeg", timeout_s=30) as by_jpeg:
        answer = by_jpeg.infer(red).robot
    far = np.abs(answer - expected["blue"]).max()
    assert np.abs(answer - expected["red"]).max() < far / 4
