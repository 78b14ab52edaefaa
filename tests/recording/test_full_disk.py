"""A disk that is full ends the recording, not the robot; finished episodes stay."""

import errno
import logging
import shutil
import subprocess

import pytest

from lefleet.recording import outcomes, read_provenance, recover
from tests.recording import frames


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder, leave: int) -> None:
    """Leave only so many bytes on the disk."""
    size = shutil.disk_usage(folder).free - leave
    (folder / "ballast").write_bytes(bytes(max(0, size)))


@pytest.mark.parametrize("mode", list(frames.MODES))
@pytest.mark.parametrize("leave", [0, 6_000])
def test_a_full_disk_ends_the_recording_only(small_disk, caplog, mode, leave):
    root = small_disk / "a"
    dataset = frames.create(root, mode)
    for episode in range(2):
        frames.add_frames(dataset, episode, mode)
        dataset.save_episode()
    fill(small_disk, leave)
    for episode in range(2, 40):
        frames.add_frames(dataset, episode, mode)
        dataset.save_episode()
    assert dataset.ended == f"no space is left on the disk of {root}"
    messages = [one for one in caplog.records if one.message.startswith("Recording ended")]
    assert len(messages) == 1
    finished = dataset.num_episodes
    assert 2 <= finished < 40
    assert dataset.dropped_frames == sum(frames.length(one) for one in range(finished, 40))
    dataset.clear_episode_buffer()
    dataset.finalize()
    recover(root)  # does nothing unless the disk was too full to tidy up
    frames.check(root, finished, mode)
    assert len(read_provenance(root, finished - 1)) == frames.length(finished - 1)
    assert not read_provenance(root, finished)
    (small_disk / "ballast").unlink()
    again = frames.resume(root, mode)
    frames.add_frames(again, finished, mode)
    again.save_episode()
    assert not again.ended
    again.finalize()
    frames.check(root, finished + 1, mode)


FAULTS = {
    "add_frame": "lerobot.datasets.dataset_writer.DatasetWriter.add_frame",
    "data": "pyarrow.parquet.ParquetWriter.write_table",
    "info": "lerobot.datasets.dataset_metadata.write_info",
    "stats": "lerobot.datasets.dataset_metadata.write_stats",
    "metadata": "lerobot.datasets.dataset_metadata.LeRobotDatasetMetadata._close_writer",
    "sync": "lefleet.recording.dataset.sync_files",
    "state": "lefleet.recording.state.replace_file",
}


@pytest.mark.parametrize("place", list(FAULTS))
def test_an_error_of_the_disk_anywhere_leaves_what_was_finished(
    tmp_path, monkeypatch, caplog, place
):
    root = tmp_path / "a"
    dataset = frames.create(root, "state")
    frames.add_frames(dataset, 0, "state")
    dataset.save_episode()

    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(FAULTS[place], fail)
    frames.add_frames(dataset, 1, "state")
    dataset.save_episode()
    monkeypatch.undo()
    frames.add_frames(dataset, 2, "state")
    dataset.save_episode()
    dataset.finalize()
    assert dataset.ended == "OSError: [Errno 5] Input/output error"
    assert [one.levelno for one in caplog.records].count(logging.ERROR) == 1
    assert dataset.num_episodes == 1
    assert dataset.dropped_frames == frames.length(1) + frames.length(2)
    assert not (root / "recording.json").exists()
    frames.check(root, 1, "state")


def test_an_interrupt_while_saving_is_raised_and_leaves_what_was_finished(tmp_path, monkeypatch):
    root = tmp_path / "a"
    dataset = frames.create(root, "state")
    frames.add_frames(dataset, 0, "state")
    dataset.save_episode()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(FAULTS["stats"], interrupt)
    frames.add_frames(dataset, 1, "state")
    with pytest.raises(KeyboardInterrupt):
        dataset.save_episode()
    monkeypatch.undo()
    dataset.save_episode()
    dataset.finalize()
    frames.check(root, 1, "state")
    assert not outcomes(root)
