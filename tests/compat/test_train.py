"""Samples from memory are LeRobot's own, key by key and bit by bit."""

import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from torch.utils.data import DataLoader

from lefleet import TrainRequest, run_stage
from lefleet.compat import train as entry
from lefleet.compat.train import MemoryDataset, in_memory, is_suitable
from lefleet.stages.folder import read_record
from lefleet.stages.lerobot_train import CHANGES
from tests.conftest import TASKS

WINDOWS = {
    "action": [step / 80 for step in range(-2, 10)],
    "observation.state": [-1 / 80, 0.0],
}


def open_dataset(demos: Path, **kwargs) -> LeRobotDataset:
    return LeRobotDataset("local/dataset", root=demos / "dataset", **kwargs)


def assert_same(ours: dict, theirs: dict) -> None:
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        if isinstance(value, torch.Tensor):
            assert ours[key].dtype == value.dtype, key
            assert torch.equal(ours[key], value), key
        else:
            assert ours[key] == value, key


@pytest.mark.parametrize("windows", [None, WINDOWS])
@pytest.mark.parametrize("episodes", [None, [1, 4, 7]])
def test_every_sample_equals_lerobot_s(demos, windows, episodes):
    theirs = open_dataset(demos, delta_timestamps=windows, episodes=episodes)
    ours = in_memory(theirs)
    assert isinstance(ours, MemoryDataset)
    assert len(ours) == len(theirs)
    last = len(theirs) - 1
    for index in sorted({*range(0, last, 23), *range(12), *range(60, 80), last}):
        assert_same(ours[index], theirs[index])


def test_a_loader_makes_the_same_batches(demos):
    theirs = open_dataset(demos, delta_timestamps=WINDOWS)
    for left, right in zip(
        DataLoader(in_memory(theirs), batch_size=50), DataLoader(theirs, batch_size=50), strict=True
    ):
        assert_same(left, right)


def test_the_copy_that_a_loader_s_worker_process_gets_makes_the_same_batches(demos):
    theirs = open_dataset(demos, delta_timestamps=WINDOWS, episodes=[0, 1])
    copy = pickle.loads(pickle.dumps(in_memory(theirs)))
    ours = DataLoader(copy, batch_size=32, num_workers=1)
    for left, right in zip(ours, DataLoader(theirs, batch_size=32), strict=True):
        assert_same(left, right)


def test_what_lerobot_s_training_asks_of_a_dataset_is_answered(demos):
    theirs = open_dataset(demos, episodes=[2, 3])
    ours = in_memory(theirs)
    assert ours.num_frames == theirs.num_frames
    assert ours.num_episodes == 2
    assert ours.episodes == [2, 3]
    assert ours.meta is theirs.meta
    assert ours.absolute_to_relative_idx == theirs.absolute_to_relative_idx


def test_transforms_and_subclasses_stay_with_lerobot(demos):
    class Special(LeRobotDataset):
        pass

    assert not is_suitable(open_dataset(demos, image_transforms=lambda image: image))
    assert not is_suitable(Special("local/dataset", root=demos / "dataset"))


def test_an_unknown_lerobot_is_left_alone(monkeypatch):
    untouched = entry.lerobot_train.make_train_eval_datasets
    seen = []
    monkeypatch.setattr(entry, "is_known_lerobot", lambda: False)
    monkeypatch.setattr(
        entry.lerobot_train,
        "main",
        lambda: seen.append(entry.lerobot_train.make_train_eval_datasets),
    )
    entry.main()
    assert seen == [untouched]


def test_training_from_memory_gives_the_same_weights(demos, weak, tmp_path):
    request = TrainRequest(dataset=str(demos), tasks=TASKS, steps=20, memory_data=False)
    assert run_stage(request, tmp_path).digest == read_record(weak).digest
    assert "served from memory" in (weak / "log.txt").read_text()
    assert "served from memory" not in (tmp_path / "log.txt").read_text()


def test_corrections_need_a_lerobot_that_is_known(monkeypatch):
    monkeypatch.setattr(entry, "is_known_lerobot", lambda: False)
    monkeypatch.setenv(entry.CHANGES, '{"statistics": {"action": {"std": {"0": 1.0}}}}')
    with pytest.raises(SystemExit, match="cannot be corrected"):
        entry.main()


def test_a_renamed_feature_keeps_its_statistics(demos, monkeypatch):
    theirs = open_dataset(demos)
    made = []
    monkeypatch.setattr(
        entry.lerobot_train, "make_train_eval_datasets", lambda config: (theirs, None)
    )
    names = {"observation.environment_state": "observation.objects"}
    monkeypatch.setattr(
        entry.lerobot_train,
        "main",
        lambda: made.append(
            entry.lerobot_train.make_train_eval_datasets(SimpleNamespace(rename_map=names))
        ),
    )
    monkeypatch.setenv(entry.CHANGES, '{"memory_data": false}')
    entry.main()
    assert made == [(theirs, None)]
    statistics = theirs.meta.stats
    assert statistics["observation.objects"] is statistics["observation.environment_state"]


def test_swapped_features_swap_their_statistics():
    top, hand = {"mean": 1}, {"mean": 2}
    statistics = {"top": top, "hand": hand}
    entry.rename(statistics, {"top": "hand", "hand": "top", "absent": "new"})
    assert statistics == {"top": hand, "hand": top}


def test_renaming_needs_a_lerobot_that_is_known(monkeypatch):
    monkeypatch.setattr(entry, "is_known_lerobot", lambda: False)
    monkeypatch.setattr(entry.lerobot_train, "main", lambda: None)
    monkeypatch.setattr(entry.sys, "argv", ["train", '--rename_map={"a": "b"}'])
    with pytest.raises(SystemExit, match="cannot be corrected"):
        entry.main()


def test_both_sides_name_the_variable_alike():
    assert entry.CHANGES == CHANGES
