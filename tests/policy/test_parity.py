"""Chunks are LeRobot's own, bit for bit."""

import numpy as np
import pytest
import torch

from tests.policy import tiny
from tests.policy.asking import Local, ask, frames_for, request_for, rows_for, same

WITHOUT_HISTORY = ["act_images", "act_environment", "act_state", "relative_act", "rtc_flow"]
WITHOUT_HISTORY += ["unlisted"]


@pytest.mark.parametrize("name", WITHOUT_HISTORY)
def test_a_chunk_is_lerobots_own(checkpoint_of, policy_of, name):
    served, local = policy_of(name), Local(checkpoint_of(name))
    chunks = []
    for seed in range(3):
        request = request_for(served, seed)
        chunks.append(ask(served, request))
        assert same(chunks[-1], local.chunk(request.frames[-1], seed))
    assert not same(chunks[0], chunks[1])


def test_relative_actions_are_added_to_the_state_except_the_grippers(policy_of):
    served = policy_of("relative_act")
    request = request_for(served)
    chunk = ask(served, request)
    statistics = {"mean": np.float32([0.1, 0.2, 0.3]), "std": np.float32([0.75, 1.0, 1.25])}
    moved = request.frames[-1][tiny.STATE] * np.float32([1, 1, 0])
    expected = chunk.model * statistics["std"] + statistics["mean"] + moved
    assert chunk.robot == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["diffusion_history", "diffusion_state"])
def test_diffusion_answers_as_its_own_queues_would(checkpoint_of, policy_of, name):
    served, local = policy_of(name), Local(checkpoint_of(name))
    episode = frames_for(served, 10)
    for step, frame in enumerate(episode):
        torch.manual_seed(step)
        action = local.after(local.policy.select_action(local.batch(frame)))
        if step % served.capabilities.n_action_steps == 0:
            # At an episode's start there is no earlier observation.
            seen = tuple(episode[max(0, step - 1) : step + 1])
            chunk = ask(served, request_for(served, step, frames=seen))
        assert (
            chunk.robot[step % served.capabilities.n_action_steps].tobytes()
            == action[0].numpy().tobytes()
        )


def test_a_policy_that_makes_its_environment_state_asks_for_the_state_only(policy_of):
    served = policy_of("act_state")
    assert served.contract.vectors == {tiny.STATE: tiny.JOINTS}
    prepared = served.new_pipeline().prepare(request_for(served))
    made, state = prepared.batches[-1][tiny.ENVIRONMENT], prepared.batches[-1][tiny.STATE]
    assert torch.equal(made, state)
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.75, 1.0, 1.25])
    sent = torch.from_numpy(request_for(served).frames[-1][tiny.STATE])
    torch.testing.assert_close(made[0], (sent - mean) / std)


def test_the_history_matters(policy_of):
    served = policy_of("diffusion_history")
    request = request_for(served)
    other = request_for(served, frames=(frames_for(served, 1, 9)[0], request.frames[-1]))
    assert not same(ask(served, request), ask(served, other))


@pytest.mark.parametrize("name", ["vqbet", "tdmpc"])
def test_queues_are_filled_as_select_action_fills_them(checkpoint_of, policy_of, name):
    served, local = policy_of(name), Local(checkpoint_of(name))
    episode = frames_for(served, 8)
    for step, frame in enumerate(episode):
        if name == "tdmpc" and step % served.capabilities.n_action_steps == 0:
            local.policy.reset()  # its last plan does not travel
        torch.manual_seed(step)
        np.random.seed(step)
        action = local.after(local.policy.select_action(local.batch(frame)))
        if step % served.capabilities.n_action_steps == 0:
            seen = tuple(episode[max(0, step + 1 - served.capabilities.n_obs_steps) : step + 1])
            chunk = ask(served, request_for(served, step, frames=seen))
        assert (
            chunk.robot[step % served.capabilities.n_action_steps].tobytes()
            == action[0].numpy().tobytes()
        )


def test_tdmpc_repeats_its_first_action_if_told_to(tmp_path):
    from lefleet.policy import load_policy
    from tests.policy.tiny import model

    tiny.tdmpc(tmp_path, n_action_repeats=2, n_action_steps=1)
    served = load_policy(model(tmp_path))
    chunk = ask(served, request_for(served))
    assert served.capabilities.chunk_size == 2
    assert (chunk.robot[0] == chunk.robot[1]).all()


@pytest.mark.parametrize("rows", [1, 5, 8])
def test_what_is_left_of_a_chunk_guides_the_next(checkpoint_of, policy_of, rows):
    served, local = policy_of("rtc_flow"), Local(checkpoint_of("rtc_flow")).with_rtc()
    left = rows_for(served, rows)
    request = request_for(served, prefix_model=left, prefix_robot=left, inference_delay_steps=2)
    chunk = ask(served, request)
    own = local.chunk(
        request.frames[-1],
        request.seed,
        inference_delay=2,
        prev_chunk_left_over=torch.from_numpy(left),
    )
    assert same(chunk, own)
    free = ask(served, request_for(served))
    assert np.abs(chunk.model[:rows] - left).sum() < np.abs(free.model[:rows] - left).sum()


def test_a_prefix_is_not_padded(policy_of):
    """Zeros after the true length would be taken for actions."""
    served = policy_of("rtc_flow")
    left = rows_for(served, 3)
    padded = np.concatenate([left, np.zeros((5, 3), np.float32)])
    asked = [
        request_for(served, prefix_model=rows, inference_delay_steps=1) for rows in (left, padded)
    ]
    assert not same(*(ask(served, request) for request in asked))


def test_the_delay_matters(policy_of):
    served = policy_of("rtc_flow")
    left = rows_for(served, 8)
    asked = [
        request_for(served, prefix_model=left, inference_delay_steps=delay) for delay in (0, 4)
    ]
    assert not same(*(ask(served, request) for request in asked))


def test_a_relative_prefix_is_anchored_to_the_present_state(checkpoint_of, policy_of):
    served, local = policy_of("rtc_relative"), Local(checkpoint_of("rtc_relative")).with_rtc()
    left_model, left_robot = rows_for(served, 5, 1), rows_for(served, 5, 2)
    chunks = []
    for seed in (1, 2):
        request = request_for(
            served,
            seed,
            prefix_model=left_model,
            prefix_robot=left_robot,
            inference_delay_steps=2,
        )
        batch = local.batch(request.frames[-1])
        prefix = local.anchored(left_robot)
        torch.manual_seed(seed)
        actions = local.policy.predict_action_chunk(
            batch, inference_delay=2, prev_chunk_left_over=prefix
        )
        chunks.append(ask(served, request))
        assert same(chunks[-1], local.finished(actions))
    # What the robot was about to do stays where it was, though its state and the noise changed.
    assert np.abs(chunks[0].robot[0] - left_robot[0]).max() < 0.5


def test_the_same_request_gives_the_same_chunk_among_others(policy_of):
    served = policy_of("rtc_flow")
    alone = ask(served, request_for(served, 5))
    ask(served, request_for(served, 6))
    torch.manual_seed(0)
    assert same(alone, ask(served, request_for(served, 5)))
