"""Cameras of the simulation: what an image depends on, and equality with LeRobot's own rollout."""

import numpy as np
import pytest

from lefleet.rollouts import Act, EpisodeBatch, PlannedEpisode
from lefleet.rollouts.metaworld import MetaWorld
from lefleet.rollouts.worker import Engine
from lefleet.sim.render import ImageSize, Renderers, graphics_problem
from tests.rollouts.equality import ours, require_equal, theirs, tiny_act

pytestmark = pytest.mark.skipif(bool(graphics_problem()), reason="no images can be rendered here")

CAMERAS = {"corner": ImageSize(24, 32), "gripper": ImageSize(16, 16)}
FORWARD = np.array([0.2, 0.8, -0.4, 0.5], np.float32)


@pytest.fixture
def renderers():
    shared = Renderers()
    yield shared
    shared.close()


def episode(world: MetaWorld, seed: int, steps: int = 3) -> list[dict]:
    """Observations from the first one on."""
    seen = [world.reset(seed, 0)]
    for _ in range(steps):
        world.step(FORWARD)
        seen.append(world.observe())
    return seen


def test_an_image_depends_on_the_seed_and_the_actions_alone(renderers):
    """Not on the episode before, nor on the world that shares its renderer."""
    fresh, used = (MetaWorld("push", CAMERAS, renderers) for _ in range(2))
    before = episode(used, seed=3, steps=5)
    for mine, other in zip(episode(fresh, seed=7), episode(used, seed=7), strict=True):
        for name, size in CAMERAS.items():
            image = mine["pixels"][name]
            assert image.shape == (*size, 3)
            assert image.dtype == np.uint8
            assert np.array_equal(image, other["pixels"][name])
    gripper = [seen["pixels"]["gripper"] for seen in (before[0], before[-1], mine)]
    assert len({image.tobytes() for image in gripper}) == 3, "cameras show what happens"


def test_rendering_changes_no_number(renderers):
    seen, blind = MetaWorld("door-open", CAMERAS, renderers), MetaWorld("door-open")
    for one, other in zip(episode(seen, 5, steps=20), episode(blind, 5, steps=20), strict=True):
        assert one.keys() - other.keys() == {"pixels"}
        for name, vector in other.items():
            assert np.array_equal(one[name], vector)
    assert seen.start == blind.start


class Glancing:
    """A policy that looks at every third step only, and keeps what it saw."""

    def __init__(self):
        self.asked = []

    def reset(self, seed):
        """It remembers nothing of earlier episodes."""

    @property
    def looks(self):
        return len(self.asked) % 3 == 0

    def act(self, observations, instructions):
        self.asked.append([row["pixels"]["gripper"] for row in observations])
        return np.stack([FORWARD] * len(observations))


def test_only_what_a_policy_looks_at_is_rendered(monkeypatch):
    images, rendered = Renderers.images, []

    def counted(renderers, sim, sizes):
        rendered.append(sim)
        return images(renderers, sim, sizes)

    monkeypatch.setattr(Renderers, "images", counted)
    policy = Glancing()
    engine = Engine(lambda *_: policy)
    planned = tuple(PlannedEpisode(row=row, task="push", seed=row) for row in range(2))
    batch = EpisodeBatch(
        size=2, episodes=planned, behaviour=Act(), checkpoint="p", cameras=CAMERAS, episode_length=7
    )
    list(engine.run(batch))
    engine.close()
    assert len(policy.asked) == 7
    assert len(rendered) == 2 * 3
    expected = [one["pixels"]["gripper"] for one in episode(MetaWorld("push", CAMERAS), 1, steps=6)]
    for step in (0, 3, 6):
        assert np.array_equal(policy.asked[step][1], expected[step])


def test_every_step_equals_lerobot_s_own(tmp_path, monkeypatch):
    """In both worlds of the engine: LeFleet's simulation, and its plugin as any environment."""
    env = {
        "type": "lefleet_metaworld",
        "discover_packages_path": "lefleet.sim",
        "task": "push",
        "episode_length": "8",
        "cameras": "[corner,gripper]",
        "image_size": "32",
    }
    checkpoint = tiny_act(tmp_path / "act", env, -1.0, 1.0)
    seeds = [5, 300_000_002]
    expected = theirs(env, checkpoint, seeds)
    assert expected[0].observation["observation.images.gripper"].shape == (3, 32, 32)
    assert {one.length for one in expected} == {8}
    assert len({one.actions.tobytes() for one in expected}) == 2, "the policy looks at its rows"
    require_equal(ours(env, checkpoint, seeds, monkeypatch), expected)
    require_equal(ours(env, checkpoint, seeds, monkeypatch, is_own=True), expected)
