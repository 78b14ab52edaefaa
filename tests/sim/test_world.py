import numpy as np
import pytest

from lefleet.sim.encode import ENVIRONMENT_NAMES, STATE_NAMES, encode
from lefleet.sim.tasks import TASKS
from lefleet.sim.world import RETREAT_STEPS, Expert, RecoveringExpert, World


@pytest.mark.parametrize("task", TASKS)
def test_a_seed_stands_for_one_initial_state(task):
    world = World(task)
    first = world.reset(1)
    for _ in range(3):
        world.step(np.ones(4))
    second = world.reset(2)
    assert not np.array_equal(first, second), "seeds do not change the initial state"
    assert np.array_equal(first, world.reset(1)), "the same seed gives another initial state"


def rollout(world: World, seed: int) -> tuple[list[float], list[bool], list[np.ndarray]]:
    expert, raw = Expert(world.task.name), world.reset(seed)
    progress, success, states = [], [], [raw]
    while len(progress) < world.task.horizon and not any(success):
        outcome = world.step(expert.act(raw))
        raw = outcome.raw
        progress.append(outcome.progress)
        success.append(outcome.success)
        states.append(raw)
    return progress, success, states


@pytest.mark.parametrize("task", ["push", "door-open"])
def test_progress_grows_to_one_and_is_one_only_with_success(task):
    progress, success, _ = rollout(World(task), seed=0)
    assert progress == sorted(progress)
    assert success[-1]
    assert progress[-1] == 1.0
    assert progress[0] < 0.2
    assert max(progress[:-1]) < 1.0


def test_doing_nothing_is_no_progress():
    world = World("push")
    world.reset(0)
    for _ in range(20):
        outcome = world.step(np.zeros(4))
    assert outcome.progress < 0.05


def test_the_same_actions_lead_to_the_same_states_in_a_used_and_a_new_world():
    used = World("pick-place")
    rollout(used, seed=4)
    assert np.array_equal(rollout(used, seed=3)[2], rollout(World("pick-place"), seed=3)[2])


def test_actions_are_clipped():
    one, two = World("reach"), World("reach")
    one.reset(0), two.reset(0)
    assert np.array_equal(one.step(np.full(4, 9.0)).raw, two.step(np.ones(4)).raw)


@pytest.mark.parametrize("task", ["push", "pick-place", "door-open"])
def test_the_expert_succeeds(task):
    world = World(task)
    assert sum(rollout(world, seed)[1][-1] for seed in range(5)) >= 4


def test_expert_actions_stay_in_the_robot_s_range():
    world = World("push")
    raw = world.reset(0)
    expert = Expert("push")
    for _ in range(30):
        action = expert.act(raw)
        assert np.abs(action).max() <= 1.0
        raw = world.step(action).raw


def test_a_recovering_expert_saves_what_the_script_alone_cannot():
    """The hand closed above the puck: the plain script hovers there for ever."""

    def finish(expert) -> bool:
        world = World("push")
        raw = world.reset(0)
        for _ in range(40):
            to_puck = raw[4:7] - raw[:3] + (0.0, 0.0, 0.08)
            raw = world.step(np.append(to_puck * 10, 1.0)).raw
        return any(_act(world, expert) for _ in range(200))

    def _act(world, expert) -> bool:
        return world.step(expert.act(world.sim._last_stable_obs)).success

    assert finish(RecoveringExpert("push"))
    assert not finish(Expert("push"))


def test_a_recovering_expert_first_rises_and_opens():
    expert = RecoveringExpert("push")
    moves = [expert.act(np.zeros(39)) for _ in range(RETREAT_STEPS + 1)]
    assert all(move.tolist() == [0.0, 0.0, 1.0, -1.0] for move in moves[:-1])


def test_every_column_has_a_name_and_the_task_has_its_slot():
    observation = encode(np.zeros(39), "door-open")
    assert observation.state.shape == (len(STATE_NAMES),)
    assert observation.environment.shape == (len(ENVIRONMENT_NAMES),)
    slots = dict(zip(ENVIRONMENT_NAMES, observation.environment, strict=True))
    assert [name for name, value in slots.items() if name.startswith("task_") and value] == [
        "task_door-open"
    ]


def test_ten_centimetres_are_one_unit():
    raw = np.zeros(39)
    raw[0], raw[36] = 0.1, 0.2
    observation = encode(raw, "push")
    assert observation.state[0] == pytest.approx(1.0)
    assert observation.environment[ENVIRONMENT_NAMES.index("goal_x")] == pytest.approx(2.0)


@pytest.mark.parametrize("task", ["push", "pick-place", "door-open"])
def test_an_expert_leaves_what_it_sees_as_it_is(task):
    raw = World(task).reset(0)
    before = raw.copy()
    Expert(task).act(raw)
    assert np.array_equal(raw, before)
