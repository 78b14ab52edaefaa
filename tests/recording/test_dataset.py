"""The dataset that strategies record into: LeRobot's own, with files for each episode."""

import numpy as np
import pytest
from lerobot.datasets import VideoEncodingManager
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from lefleet.errors import BadInput, LeFleetError
from lefleet.recording import (
    Outcome,
    RecordedDataset,
    finished_episodes,
    outcomes,
    read_provenance,
    recover,
)
from lefleet_client.stream import Executed
from lefleet_client.stream.queue import Origin
from tests.recording import frames


def record(dataset, episodes, mode: str = "state") -> None:
    for episode in episodes:
        frames.add_frames(dataset, episode, mode)
        dataset.save_episode()


@pytest.mark.parametrize("mode", list(frames.MODES))
def test_finished_episodes_load_while_the_recording_goes_on(tmp_path, mode):
    root = tmp_path / "a"
    dataset = frames.create(root, mode)
    with VideoEncodingManager(dataset):
        record(dataset, range(2), mode)
        dataset.add_frame(frames.frame_of(2, 0, mode))
        frames.check(root, 2, mode)
        assert finished_episodes(root) == 2
        dataset.clear_episode_buffer()
        record(dataset, [2], mode)
    frames.check(root, 3, mode)
    assert not (root / "recording.json").exists()
    assert recover(root) is None
    assert dataset[0]["action"].tolist() == frames.action(0, 0).tolist(), "it reads what it wrote"


def test_it_is_lerobots_dataset(tmp_path):
    dataset = frames.create(tmp_path / "a", "state")
    assert isinstance(dataset, LeRobotDataset)
    with pytest.raises(ValueError, match="add_frame"):
        dataset.save_episode()
    with pytest.raises(ValueError, match="Feature mismatch"):
        dataset.add_frame({"task": "t"})
    assert not dataset.ended
    dataset.finalize()
    dataset.finalize()


def test_lerobot_continues_what_was_recorded_and_the_reverse(tmp_path):
    root = tmp_path / "a"
    with VideoEncodingManager(frames.create(root, "state")) as manager:
        record(manager.dataset, range(2))
    plain = LeRobotDataset.resume("local/rollout_test", root=root)
    record(plain, (2, 3))
    plain.finalize()
    ours = frames.resume(root, "state")
    record(ours, (4, 5))
    ours.finalize()
    frames.check(root, 6, "state")


def test_an_episode_of_one_frame_without_statistics_is_left_out(tmp_path):
    root = tmp_path / "a"
    dataset = frames.create(root, "streaming")
    dataset.add_frame(frames.frame_of(0, 0, "streaming"))
    dataset.save_episode()
    assert (dataset.dropped_frames, dataset.ended) == (1, "")
    record(dataset, range(2), "streaming")
    dataset.finalize()
    frames.check(root, 2, "streaming")


def test_one_process_at_a_time_records_or_recovers(tmp_path):
    root = tmp_path / "a"
    dataset = frames.create(root, "state")
    record(dataset, [0])
    for refused in (recover, lambda root: frames.resume(root, "state")):
        with pytest.raises(BadInput, match="is being recorded by another process"):
            refused(root)
    dataset.finalize()


def test_videos_are_not_encoded_later(tmp_path):
    with pytest.raises(BadInput, match="video_encoding_batch_size"):
        RecordedDataset.create("a/b", fps=1, features={}, root=tmp_path, batch_encoding_size=2)


def test_a_dataset_that_another_program_changed_is_left_as_it_is(tmp_path):
    root = tmp_path / "a"
    dataset = frames.create(root, "state")
    record(dataset, range(3))
    stale = (root / "recording.json").read_bytes()
    dataset.finalize()
    plain = LeRobotDataset.resume("local/rollout_test", root=root)
    record(plain, (3, 4))
    plain.finalize()
    (root / "recording.json").write_bytes(stale)
    assert recover(root) == 5
    frames.check(root, 5, "state")
    (root / "recording.json").write_bytes(stale)
    (root / "meta/info.json").write_text("{")
    before = sorted(root.rglob("*"))
    with pytest.raises(LeFleetError, match="it was changed since"):
        recover(root)
    assert sorted(root.rglob("*")) == before


def origin(seq_id: int) -> Origin:
    return Origin(0.0, "s", seq_id, 0, "digest", "gpu-box")


def test_provenance_names_the_request_of_each_frame(tmp_path):
    root = tmp_path / "a"
    dataset = frames.create(root, "state")
    answers = [Executed(origin(7), 2, 0.25), Executed(None, 0, 0.0), None]
    dataset.attach(executed=lambda: answers.pop(0))
    for frame in range(3):
        dataset.add_frame(frames.frame_of(0, frame, "state"))
    dataset.save_episode()
    remote, fallback, other = read_provenance(root, 0)
    assert (remote.session_id, remote.seq_id, remote.step) == ("s", 7, 2)
    assert (remote.server, remote.digest, remote.age_s) == ("gpu-box", "digest", 0.25)
    assert [one.is_fallback for one in (remote, fallback, other)] == [False, True, False]
    assert [one.frame_index for one in (remote, fallback, other)] == [0, 1, 2]
    assert (fallback.session_id, other.session_id) == ("", "")
    dataset.finalize()


def test_an_intervention_is_not_the_policys(tmp_path):
    features = frames.features("state")
    features["intervention"] = {"dtype": "bool", "shape": (1,), "names": None}
    dataset = RecordedDataset.create(
        "local/rollout_test", fps=30, features=features, root=tmp_path / "a", use_videos=False
    )
    dataset.attach(executed=lambda: Executed(origin(1), 0, 0.1))
    for is_person in (False, True):
        frame = frames.frame_of(0, 0, "state")
        dataset.add_frame(frame | {"intervention": np.array([is_person])})
    dataset.save_episode()
    assert [one.session_id for one in read_provenance(tmp_path / "a", 0)] == ["s", ""]
    dataset.finalize()


def test_frames_that_were_kept_back_belong_to_their_own_actions(tmp_path):
    """As the highlight strategy does: frames of several ticks are added in one."""
    dataset = frames.create(tmp_path / "a", "state")
    tick = 0
    dataset.attach(executed=lambda: Executed(origin(tick), 0, 0.1))
    for tick in range(5):  # noqa: B007 - `executed` reads it
        dataset.acted()
    for frame in range(3):
        dataset.add_frame(frames.frame_of(0, frame, "state"))
    for tick in (5, 6):
        dataset.acted()
        dataset.add_frame(frames.frame_of(0, tick, "state"))
    dataset.save_episode()
    assert [one.seq_id for one in read_provenance(tmp_path / "a", 0)] == [2, 3, 4, 5, 6]
    dataset.finalize()


def test_the_outcome_is_asked_when_an_episode_is_saved(tmp_path):
    root = tmp_path / "a"
    dataset = frames.create(root, "state")
    said = [Outcome(success=True, progress=0.5, source="environment"), None]
    dataset.attach(outcome=lambda: said.pop(0))
    record(dataset, range(2))
    dataset.finalize()
    found = outcomes(root)
    assert list(found) == [0]
    assert (found[0].success, found[0].progress, found[0].source) == (True, 0.5, "environment")
