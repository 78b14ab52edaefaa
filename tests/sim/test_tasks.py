import pytest
from metaworld.env_dict import ALL_V3_ENVIRONMENTS

from lefleet import BadInput
from lefleet.sim.tasks import BY_INSTRUCTION, TASK_SETS, TASKS, resolve_tasks


def test_all_fifty_tasks_of_metaworld_are_here():
    assert {task.metaworld_id for task in TASKS.values()} == set(ALL_V3_ENVIRONMENTS)


def test_every_instruction_stands_for_one_task():
    assert len(BY_INSTRUCTION) == len(TASKS) == 50


def test_sets_expand_and_repeats_are_dropped():
    assert resolve_tasks(["easy3", "push"]) == ("push", "pick-place", "door-open")
    assert len(resolve_tasks(["MT10"])) == 10
    assert resolve_tasks(["all"]) == tuple(TASKS)


def test_metaworld_s_own_spelling_is_accepted():
    assert resolve_tasks(["door-open-v3"]) == ("door-open",)


def test_members_of_sets_exist():
    assert all(name in TASKS for members in TASK_SETS.values() for name in members)


def test_unknown_task_is_refused_with_the_nearest_name():
    with pytest.raises(BadInput, match=r"door-opn.*door-open"):
        resolve_tasks(["push", "door-opn"])


def test_no_task_is_refused():
    with pytest.raises(BadInput, match="none given"):
        resolve_tasks([])
