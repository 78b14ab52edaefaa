"""Which episodes of an existing dataset are taken: balanced, nested, and the same every time."""

import json
from collections import Counter
from itertools import pairwise

import pytest

from lefleet.errors import BadInput
from lefleet.records import ExistingDataset
from lefleet.stages.datasets import episode_tasks, local_metadata
from lefleet.stages.selection import choose_episodes, read_texts

MINE = {"robot_type": "so101"}
TEXTS = ["open the drawer", "push", "push", "open the drawer", "wave"] * 10
WANTED = ("open the drawer", "push")


def chosen(number: int, seed: int = 0, tasks=WANTED, **changes) -> tuple[int, ...]:
    request = ExistingDataset(tasks=tasks, episodes_per_task=number, seed=seed, **changes)
    return choose_episodes(TEXTS, MINE, request)


def test_every_wanted_task_has_the_same_number_of_episodes_in_order():
    taken = chosen(7)
    assert Counter(TEXTS[number] for number in taken) == dict.fromkeys(WANTED, 7)
    assert list(taken) == sorted(taken)


def test_no_number_means_all_that_the_rarest_task_has():
    assert len(chosen(0)) == 40
    assert len(chosen(0, tasks=("wave", "push"))) == 20


@pytest.mark.parametrize("seed", range(5))
def test_a_larger_selection_contains_every_smaller_one(seed):
    selections = [set(chosen(number, seed)) for number in range(1, 21)]
    for fewer, more in pairwise(selections):
        assert fewer < more


def test_another_seed_takes_other_episodes():
    assert len({chosen(5, seed) for seed in range(5)}) == 5


def test_episodes_of_a_task_do_not_depend_on_the_other_tasks():
    alone = chosen(5, tasks=("push",))
    assert set(alone) <= set(chosen(5))
    assert set(alone) <= set(chosen(5, tasks=("wave", "push")))


def test_a_selection_is_known_for_ever():
    """Records of finished stages name these episodes."""
    assert chosen(3) == (0, 15, 16, 21, 22, 40)


def test_more_than_the_rarest_task_has_is_refused():
    with pytest.raises(BadInput, match="episodes_per_task: 11 are asked for, but wave has only 10"):
        chosen(11, tasks=("push", "wave"))


def test_what_later_cycles_will_take_is_checked_at_once():
    assert len(chosen(5, at_least=20)) == 10
    with pytest.raises(BadInput, match="at_least: 21 are asked for, but open the drawer has only"):
        chosen(5, at_least=21)


def test_texts_of_a_folder_are_those_that_lerobot_reads(demos):
    texts, info = read_texts(demos / "dataset")
    assert texts == episode_tasks(local_metadata(demos / "dataset"))
    assert info["robot_type"] == "metaworld_sawyer"


def test_a_folder_that_is_no_dataset_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"root: .* does not exist"):
        read_texts(tmp_path / "none")
    with pytest.raises(BadInput, match=r"it has no meta/info\.json"):
        read_texts(tmp_path)


def test_a_dataset_that_is_damaged_is_named(tmp_path):
    (tmp_path / "meta" / "episodes").mkdir(parents=True)
    (tmp_path / "meta" / "info.json").write_text(json.dumps({"fps": 30}))
    (tmp_path / "meta" / "episodes" / "file-000.parquet").write_bytes(b"not parquet")
    with pytest.raises(BadInput, match="cannot be read as a LeRobotDataset"):
        read_texts(tmp_path)
