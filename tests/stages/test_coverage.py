"""Data that lacks a task is refused, and the missing task is named."""

import pytest

from lefleet.errors import BadInput
from lefleet.stages.coverage import require_coverage, task_name, task_text, wanted_texts
from tests.samples import DOOR, PUSH


def test_a_task_stands_in_a_dataset_as_its_instruction():
    assert task_text("push") == PUSH
    assert task_text("push-v3") == PUSH


def test_a_text_of_the_datasets_own_stands_for_itself():
    assert task_text("fold the towel") == "fold the towel"
    assert task_name("fold the towel") == "fold the towel"


def test_a_set_stands_for_its_members_and_repeats_count_once():
    texts = wanted_texts(["easy3", "push", "fold the towel"])
    assert texts == (PUSH, "carry the puck to the goal", DOOR, "fold the towel")


def test_data_that_has_every_task_is_accepted():
    require_coverage({PUSH: 1, DOOR: 2, "more": 3}, ["push", "door-open"], "runs/demos")


def test_wanted_tasks_may_come_after_any_number_of_others():
    others = {f"other task {number}": 1000 for number in range(50)}
    require_coverage(others | {PUSH: 1}, ["push"], "runs/demos")


def test_nothing_wanted_is_always_covered():
    require_coverage({}, [], "runs/demos")


def test_missing_tasks_are_named_shortly_beside_what_is_there():
    available = {PUSH: 2, "fold the towel": 1}
    with pytest.raises(BadInput) as caught:
        require_coverage(available, ["push", "door-open", "reach"], "runs/demos")
    assert caught.value.problem == "tasks: runs/demos has no episode of door-open, reach."
    assert caught.value.remedy.startswith("It has push (2), fold the towel (1).")


def test_a_task_with_no_episodes_is_missing():
    with pytest.raises(BadInput, match="no episode of push"):
        require_coverage({PUSH: 0, DOOR: 1}, ["push"], "runs/demos")


def test_empty_data_is_said_to_be_empty():
    with pytest.raises(BadInput, match="It has no episodes"):
        require_coverage({}, ["push"], "runs/demos")
