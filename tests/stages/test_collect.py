"""Demonstrations by task: how many of which, what is refused, and the data that results."""

from pathlib import Path

import pytest

from lefleet import BadInput, ExpertDemos, run_stage
from lefleet.records import AttemptCounts, DatasetRecord
from lefleet.stages.collect import demonstrations_by_task
from lefleet.stages.folder import read_record

TASKS = ("push", "pick-place", "door-open")


def test_tasks_that_are_not_named_have_episodes_per_task():
    request = ExpertDemos(tasks=TASKS, episodes_per_task=4, episodes={"pick-place": 9})
    assert demonstrations_by_task(request) == {"push": 4, "pick-place": 9, "door-open": 4}


def test_a_task_with_0_is_not_attempted():
    request = ExpertDemos(tasks=TASKS, episodes_per_task=4, episodes={"push": 0})
    assert demonstrations_by_task(request) == {"pick-place": 4, "door-open": 4}


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("pik-place", "Did you mean pick-place?"),
        ("window-open", "Did you mean door-open?"),
        ("easy3", "They are push, pick-place, door-open."),
    ],
)
def test_a_number_for_something_else_is_refused_and_leaves_no_folder(name, remedy, tmp_path):
    request = ExpertDemos(tasks=TASKS, episodes={name: 3})
    with pytest.raises(BadInput, match=f"episodes: '{name}' is not one of the tasks") as caught:
        run_stage(request, tmp_path / "collect")
    assert caught.value.remedy == remedy
    assert not (tmp_path / "collect").exists()


def test_nothing_at_all_is_refused_without_data_to_add_to(tmp_path):
    request = ExpertDemos(tasks=("push",), episodes={"push": 0})
    with pytest.raises(BadInput, match="0 for every task"):
        run_stage(request, tmp_path / "collect")


@pytest.fixture(scope="module")
def unequal(tmp_path_factory) -> Path:
    """One push, two pick-place, no door-open."""
    folder = tmp_path_factory.mktemp("unequal") / "collect"
    run_stage(
        ExpertDemos(tasks=TASKS, episodes={"push": 1, "pick-place": 2, "door-open": 0}), folder
    )
    return folder


def record_of(folder: Path) -> DatasetRecord:
    record = read_record(folder)
    assert isinstance(record, DatasetRecord)
    return record


def test_every_task_has_as_many_episodes_as_were_asked_of_it(unequal):
    record = record_of(unequal)
    assert record.tasks == {"push the puck to the goal": 1, "carry the puck to the goal": 2}
    assert record.tallies == {
        "push": AttemptCounts(kept=1, attempted=1),
        "pick-place": AttemptCounts(kept=2, attempted=2),
    }


def test_no_new_episodes_leave_the_earlier_data_as_it_is(unequal, tmp_path):
    nothing = dict.fromkeys(TASKS, 0)
    request = ExpertDemos(tasks=TASKS, episodes=nothing, add_to=(str(unequal),))
    record = run_stage(request, tmp_path / "collect")
    assert record.digest == record_of(unequal).digest
    assert record.added is None
    assert record.tallies == {}
