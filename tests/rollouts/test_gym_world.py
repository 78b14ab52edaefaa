"""LeRobot environments in the engine: every episode equals that of LeRobot's own rollout."""

import av
import msgspec
import numpy as np
import pytest
from lerobot.envs.metaworld import MetaworldEnv

from lefleet.rollouts import Act, EpisodeBatch, PlannedEpisode
from lefleet.rollouts.worker import Engine
from tests.rollouts.equality import ours, require_equal, theirs, tiny_act

STATE = {"type": "pusht", "obs_type": "environment_state_agent_pos", "episode_length": "25"}
PIXELS = {"type": "pusht", "episode_length": "12"}


@pytest.mark.parametrize("env", [STATE, PIXELS], ids=["state", "pixels"])
def test_every_step_in_pusht_equals_lerobot_s_own(env, tmp_path, monkeypatch):
    checkpoint = tiny_act(tmp_path / "act", env, 0.0, 512.0)
    seeds = [7, 300_000_000, 11]
    expected = theirs(env, checkpoint, seeds)
    require_equal(ours(env, checkpoint, seeds, monkeypatch), expected)
    assert {one.length for one in expected} == {int(env["episode_length"])}
    assert len({one.actions.tobytes() for one in expected}) == 3, "the policy looks at its rows"


def test_every_step_in_stock_metaworld_with_pixels_equals_lerobot_s_own(tmp_path, monkeypatch):
    made = MetaworldEnv.__init__

    def short(env, *args, **kwargs):
        made(env, *args, **kwargs)
        env._max_episode_steps = 4

    monkeypatch.setattr(MetaworldEnv, "__init__", short)
    env = {"type": "metaworld", "task": "reach-v3"}
    checkpoint = tiny_act(tmp_path / "act", env, -1.0, 1.0)
    seeds = [5, 300_000_002]
    expected = theirs(env, checkpoint, seeds)
    require_equal(ours(env, checkpoint, seeds, monkeypatch), expected)
    assert {one.length for one in expected} == {4}
    assert expected[0].observation["observation.image"].shape == (3, 480, 480)


@pytest.mark.chaos
def test_every_step_in_aloha_equals_lerobot_s_own(tmp_path, monkeypatch):
    """Not in the lock: `pip install lerobot[aloha]` first."""
    pytest.importorskip("gym_aloha")
    env = {"type": "aloha", "episode_length": "8"}
    checkpoint = tiny_act(tmp_path / "act", env, -1.0, 1.0)
    seeds = [3, 300_000_001]
    expected = theirs(env, checkpoint, seeds)
    require_equal(ours(env, checkpoint, seeds, monkeypatch), expected)
    assert {one.length for one in expected} == {8}


LISTED = {"type": "tests_listed", "discover_packages_path": "tests.rollouts.envs"}


class Still:
    """A policy that never moves."""

    looks = True

    def reset(self, seed):
        """It remembers nothing."""

    def act(self, observations, instructions):
        self.instructions = list(instructions)
        return np.zeros((len(observations), 1), np.float32)


def run(*episodes: PlannedEpisode, env: dict[str, str] = LISTED, policy=None, **how):
    batch = EpisodeBatch(size=len(episodes), episodes=episodes, behaviour=Act(), env=env, **how)
    engine = Engine(lambda *_: policy or Still())
    return {(one.task, one.seed): one for one in engine.run(batch)}


def test_an_episode_takes_the_listed_initial_state_of_its_number():
    """Whatever ran before in the same environment, which counts its resets."""
    planned = [
        PlannedEpisode(row=row, task="do-0", seed=70 + number, number=number)
        for row, number in enumerate([0, 1, 4])
    ]
    together = run(*planned)
    again = {}
    for one in reversed(planned):
        again |= run(msgspec.structs.replace(one, row=0))
    assert {key: one.start for key, one in together.items()} == {
        key: one.start for key, one in again.items()
    }
    assert len({one.start for one in together.values()}) == 3
    assert [one.success for _, one in sorted(together.items())] == [False, True, False]
    assert [one.length for _, one in sorted(together.items())] == [3, 2, 3]


def test_tasks_of_an_environment_mix_in_a_batch():
    policy = Still()
    found = run(
        PlannedEpisode(row=0, task="do-1", seed=0),
        PlannedEpisode(row=1, task="do-0", seed=0),
        policy=policy,
    )
    assert {key: one.length for key, one in found.items()} == {("do-1", 0): 4, ("do-0", 0): 3}
    assert policy.instructions == ["do number 1", "do number 0"]


def test_an_episode_may_be_cut_off_earlier_but_not_later_than_its_environment_does():
    planned = PlannedEpisode(row=0, task="do-0", seed=0)
    for asked, length in ((2, 2), (9, 3)):
        assert run(planned, episode_length=asked)["do-0", 0].length == length


def test_progress_is_what_the_environment_says_and_1_for_a_success_only():
    failed = PlannedEpisode(row=0, task="do-1", seed=0, number=2)
    solved = PlannedEpisode(row=1, task="do-1", seed=1, number=1)
    assert [one.progress for _, one in sorted(run(failed, solved).items())] == [0.99, 1.0]


@pytest.mark.parametrize(
    ("number", "shades"), [(0, [0, 20, 40, 60, 80]), (1, [0, 20, 20])], ids=["cut off", "reset"]
)
def test_an_episode_is_filmed_with_the_frames_of_its_environment(tmp_path, number, shades):
    """An environment that has reset itself at the end shows nothing of the episode any more."""
    film = tmp_path / "a.mp4"
    planned = PlannedEpisode(row=0, task="do-1", seed=0, number=number, video=str(film))
    assert run(planned)["do-1", 0].video == str(film)
    with av.open(str(film)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert container.streams.video[0].average_rate == 10
    assert {frame.shape for frame in frames} == {(30, 32, 3)}
    assert [int(frame.mean()) for frame in frames] == pytest.approx(shades, abs=3)


def test_an_environment_that_cannot_be_rendered_is_no_obstacle_to_its_episode(tmp_path):
    planned = PlannedEpisode(row=0, task="do-0", seed=0, number=3, video=str(tmp_path / "a.mp4"))
    found = run(planned)["do-0", 0]
    assert (found.length, found.video) == (3, "")
    assert "cannot be rendered" in found.video_problem
