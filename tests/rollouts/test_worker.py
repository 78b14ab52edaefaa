"""The engine that steps batches of episodes."""

import numpy as np
import pytest

from lefleet.rollouts import Act, Demonstrate, EpisodeBatch, PlannedEpisode, Relabel, TakeOver
from lefleet.rollouts.worker import Engine
from lefleet.sim.encode import ACTION_NAMES


class Still:
    """A policy that never moves, and remembers what it was asked."""

    looks = True

    def __init__(self):
        self.resets, self.asked = [], []

    def reset(self, seed):
        self.resets.append(seed)

    def act(self, observations, instructions):
        self.asked.append((len(observations), list(instructions)))
        return np.zeros((len(observations), len(ACTION_NAMES)), np.float32)


def run(batch: EpisodeBatch, policy: object = None) -> list:
    return list(Engine(lambda checkpoint, environment: policy).run(batch))


def batch_of(behaviour, tmp_path, **kwargs) -> EpisodeBatch:
    planned = PlannedEpisode(row=0, task="push", seed=0, frames=str(tmp_path / "frames.npz"))
    return EpisodeBatch(size=1, episodes=(planned,), behaviour=behaviour, **kwargs)


def frames_of(tmp_path):
    return dict(np.load(tmp_path / "frames.npz"))


def test_an_expert_s_episode_is_written_with_its_labels(tmp_path):
    (finished,) = run(batch_of(Demonstrate(), tmp_path))
    frames = frames_of(tmp_path)
    assert finished.success
    assert finished.labelled == finished.length == len(frames["action"])
    assert frames["observation.state"].shape[1] == 4
    assert frames["action"].dtype == np.float32


def test_the_first_batch_says_when_its_episodes_begin(tmp_path):
    said = []
    engine = Engine(lambda *_: said.append("loaded") or Still(), lambda: said.append("on"))
    batch = batch_of(Act(), tmp_path, episode_length=2, checkpoint="c")
    for _ in range(2):
        said += [one.length for one in engine.run(batch)]
    assert said == ["loaded", "on", 2, 2]


def test_noise_disturbs_what_is_done_but_not_what_is_taught(tmp_path):
    from lefleet.sim.world import Expert, World

    (finished,) = run(batch_of(Demonstrate(noise=0.1), tmp_path))
    labels = frames_of(tmp_path)["action"]
    world, expert = World("push"), Expert("push")
    first = expert.act(world.reset(0))
    assert np.array_equal(labels[0], first), "the first label is the expert's own"
    second = expert.act(world.step(first).raw)
    assert not np.array_equal(labels[1], second), "the noise changed where the robot went"
    assert finished.success


def test_a_failed_episode_is_not_written(tmp_path):
    (finished,) = run(batch_of(Act(), tmp_path, episode_length=5), Still())
    assert not finished.success
    assert not finished.frames
    assert not (tmp_path / "frames.npz").exists()


def test_relabelling_keeps_the_policy_s_states_and_the_expert_s_actions(tmp_path):
    batch = batch_of(Relabel(), tmp_path, episode_length=5, keep_failures=True)
    (finished,) = run(batch, Still())
    frames = frames_of(tmp_path)
    assert finished.labelled == 5
    moved = np.abs(np.diff(frames["observation.state"][:, :3], axis=0)).max()
    assert moved < 0.05, "the robot stood still, as the policy said"
    assert np.abs(frames["action"][:, :3]).max() > 0.5, "the labels say to move"


def test_the_expert_takes_over_where_the_policy_stalls(tmp_path):
    (finished,) = run(batch_of(TakeOver(patience=10), tmp_path), Still())
    assert finished.success
    assert finished.labelled == finished.length - 10


def test_the_expert_has_as_long_again_after_taking_over(tmp_path):
    (finished,) = run(batch_of(TakeOver(patience=140), tmp_path), Still())
    assert finished.success
    assert finished.length > 150


def test_rows_without_an_episode_are_filled_and_the_batch_keeps_its_size(tmp_path):
    policy = Still()
    episodes = (
        PlannedEpisode(row=3, task="door-open", seed=0),
        PlannedEpisode(row=1, task="push", seed=1),
    )
    batch = EpisodeBatch(size=5, episodes=episodes, behaviour=Act(), episode_length=2, seed=9)
    finished = run(batch, policy)
    assert {(one.task, one.seed, one.length) for one in finished} == {
        ("door-open", 0, 2),
        ("push", 1, 2),
    }
    assert policy.resets == [9]
    size, instructions = policy.asked[0]
    assert (size, instructions[3], instructions[1]) == (
        5,
        "open the door",
        "push the puck to the goal",
    )


def test_filming_does_not_change_an_episode(tmp_path):
    planned = PlannedEpisode(row=0, task="push", seed=0, video=str(tmp_path / "a.mp4"))
    filmed = run(EpisodeBatch(size=1, episodes=(planned,), behaviour=Demonstrate()))[0]
    plain = run(
        EpisodeBatch(
            size=1, episodes=(PlannedEpisode(row=0, task="push", seed=0),), behaviour=Demonstrate()
        )
    )[0]
    assert (filmed.success, filmed.length, filmed.progress) == (
        plain.success,
        plain.length,
        plain.progress,
    )
    import av

    with av.open(str(tmp_path / "a.mp4")) as film:
        frames = sum(1 for _ in film.decode(video=0))
    assert frames == pytest.approx(filmed.length / 2, abs=1)
