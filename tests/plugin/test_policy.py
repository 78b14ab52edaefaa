"""A remote policy does what the same checkpoint does in process, row by row."""

import copy
import gc
import pickle
import threading

import pytest
import torch
from lerobot.configs import FeatureType, PolicyFeature

from lefleet_client.remote import NoServer, WrongModel
from lerobot_policy_lefleet import modeling_lefleet
from lerobot_policy_lefleet.configuration_lefleet import LefleetConfig
from lerobot_policy_lefleet.modeling_lefleet import LefleetPolicy
from lerobot_policy_lefleet.rows import WrongFeatures
from tests.plugin.batches import InProcess, batch_of, row_of
from tests.policy import tiny
from tests.server.serving import eventually

ROWS = 2


@pytest.mark.parametrize("name", ["act_environment", "act_images"])
def test_every_row_acts_as_if_it_were_alone_and_in_process(place_of, name):
    place = place_of(name)
    remote, local = place.policy(), [InProcess(place.checkpoint) for _ in range(ROWS)]
    for episode, steps in enumerate((8, 3, 7)):
        remote.reset()
        for one in local:
            one.policy.reset()
        for step in range(steps):
            batch = batch_of(local[0].config, ROWS, seed=100 * episode + step)
            actions = remote.select_action(batch)
            alone = [one.select_action(row_of(batch, row)) for row, one in enumerate(local)]
            assert torch.equal(actions, torch.cat(alone)), f"episode {episode}, step {step}"
            assert not torch.equal(alone[0], alone[1])


def test_a_policy_with_history_sees_what_it_would_see_in_process(place_of, monkeypatch):
    place = place_of("diffusion_history")
    remote, local = place.policy(), [InProcess(place.checkpoint) for _ in range(ROWS)]
    executed = local[0].config.n_action_steps
    seeds = [[10 * chunk + row for row in range(ROWS)] for chunk in range(4)]
    left = iter(seeds)
    # The server is in this process too, and its policy moves the generator that seeds come from.
    monkeypatch.setattr(modeling_lefleet, "draw_seeds", lambda rows: next(left))
    for episode in range(2):
        batches = [batch_of(local[0].config, ROWS, 50 * episode + k) for k in range(2 * executed)]
        remote.reset()
        actions = [remote.select_action(batch) for batch in batches]
        for row, one in enumerate(local):
            one.policy.reset()
            for step, batch in enumerate(batches):
                if step % executed == 0:
                    torch.manual_seed(seeds[2 * episode + step // executed][row])
                alone = one.select_action(row_of(batch, row))
                assert torch.equal(actions[step][row], alone[0]), f"{episode=} {row=} {step=}"


def test_the_server_knows_that_an_episode_begins(place):
    batch = batch_of(InProcess(place.checkpoint).config, 1, seed=0)
    remote = place.policy(client_id="episodes")
    remote.select_action(batch)
    for episode in (1, 2):
        remote.reset()
        (status,) = [
            one
            for one in place.service.status(with_clients=True).clients
            if one.client_id == "episodes"
        ]
        assert status.episode_id == episode


def test_seeds_follow_the_one_that_lerobot_sets():
    torch.manual_seed(1)
    first = modeling_lefleet.draw_seeds(3)
    assert modeling_lefleet.draw_seeds(3) != first
    torch.manual_seed(1)
    assert modeling_lefleet.draw_seeds(3) == first
    assert len(set(first)) == 3


def test_actions_relative_to_the_state_belong_to_the_row_s_own(place_of):
    place = place_of("relative_act")
    remote = place.policy()
    batch = batch_of(InProcess(place.checkpoint).config, 3, seed=0)
    batched = remote.predict_action_chunk(batch)
    for row in (2, 0, 1):
        assert torch.equal(remote.predict_action_chunk(row_of(batch, row))[0], batched[row])
    assert not torch.equal(batched[0], batched[1])


def test_a_chunk_is_whole(place):
    local = InProcess(place.checkpoint)
    batch = batch_of(local.config, 1, seed=0)
    chunk = place.policy().predict_action_chunk(batch)
    assert chunk.shape == (1, local.config.chunk_size, len(tiny.JOINTS))
    assert torch.equal(chunk, local.predict_action_chunk(batch))


def test_keys_can_be_renamed(place):
    local = InProcess(place.checkpoint)
    batch = batch_of(local.config, 1, seed=0)
    renamed = {**batch, "observation.joints": batch[tiny.STATE]}
    del renamed[tiny.STATE]
    remote = place.policy(rename_map={"observation.joints": tiny.STATE})
    assert torch.equal(remote.select_action(renamed), local.select_action(batch))


def test_all_rows_need_one_session_only(place):
    before = place.service.status().sessions
    remote = place.policy(client_id="evaluation")
    remote.select_action(batch_of(InProcess(place.checkpoint).config, 3, seed=0))
    assert place.service.status().sessions == before + 1
    assert "evaluation" in {
        one.client_id for one in place.service.status(with_clients=True).clients
    }


def test_rows_that_a_policy_may_mix_are_refused(place_of):
    place = place_of("unlisted")
    assert place.service.status().capabilities.serving_mode == "exclusive"
    remote = place.policy()
    batch = batch_of(InProcess(place.checkpoint).config, 2, seed=0)
    for ask in (remote.select_action, remote.predict_action_chunk):
        with pytest.raises(WrongFeatures, match=r"2 rows.*--eval\.batch_size=1"):
            ask(batch)
    assert remote.select_action(row_of(batch, 1)).shape == (1, len(tiny.JOINTS))
    remote.close()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_a_session_of_its_own(place, duplicate):
    batch = batch_of(InProcess(place.checkpoint).config, 1, seed=0)
    remote = place.policy()
    first = remote.select_action(batch)
    before = place.service.status().sessions
    other = duplicate(remote)
    other.reset()
    try:
        assert torch.equal(other.select_action(batch), first)
        assert place.service.status().sessions == before + 1
    finally:
        other.close()
    assert torch.isfinite(remote.select_action(batch)).all()


def test_a_policy_that_is_garbage_ends_its_session(place):
    before = place.service.status().sessions
    remote = LefleetPolicy(LefleetConfig(connect=place.endpoint))
    remote.select_action(batch_of(InProcess(place.checkpoint).config, 1, seed=0))
    assert place.service.status().sessions == before + 1
    del remote
    gc.collect()
    eventually(lambda: place.service.status().sessions == before)


def test_a_closed_policy_opens_a_new_session(place):
    batch = batch_of(InProcess(place.checkpoint).config, 1, seed=0)
    remote = place.policy()
    first = remote.select_action(batch)
    remote.close()
    remote.reset()
    assert torch.equal(remote.select_action(batch), first)


def test_actions_of_another_size_are_refused_at_once(place):
    four = {"action": PolicyFeature(FeatureType.ACTION, (4,))}
    before = place.service.status().sessions
    with pytest.raises(WrongFeatures, match=r"action: \(4,\) is executed here.*gives 3: shoulder"):
        place.policy(output_features=four).select_action({})
    eventually(lambda: place.service.status().sessions == before)


def test_a_batch_that_grows_within_an_episode_is_refused(place_of):
    place = place_of("diffusion_history")
    config = InProcess(place.checkpoint).config
    remote = place.policy()
    remote.select_action(batch_of(config, 1, seed=0))
    with pytest.raises(WrongFeatures, match="has 2 rows, and had 1"):
        remote.predict_action_chunk(batch_of(config, 2, seed=0))


def test_two_threads_do_not_mix_their_episodes(place):
    batch = batch_of(InProcess(place.checkpoint).config, 1, seed=0)
    remote = place.policy()
    remote.select_action(batch)
    other = threading.Thread(target=remote.reset)
    other.start()
    other.join()
    with pytest.raises(RuntimeError, match="max_parallel_tasks=1"):
        remote.select_action(batch)


def test_errors_of_the_network_name_the_cause(place):
    batch = batch_of(InProcess(place.checkpoint).config, 1, seed=0)
    with pytest.raises(NoServer, match="fold"):
        place.policy(service="fold", timeout_s=1.0).select_action(batch)
    with pytest.raises(WrongModel, match="pinned is 0000"):
        place.policy(pin_digest="0" * 64).select_action(batch)


def test_it_cannot_be_trained():
    policy = LefleetPolicy(LefleetConfig())
    for call in (policy.get_optim_params, lambda: policy.forward({})):
        with pytest.raises(NotImplementedError, match="train the checkpoint"):
            call()
