"""LeRobot's dataset, with every finished episode on disk and loadable."""

import errno
import logging
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from lerobot.datasets.io_utils import load_info, load_stats, load_tasks
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.utils import DEFAULT_EPISODES_PATH

from lefleet.errors import BadInput, LeFleetError
from lefleet.recording import provenance, state
from lefleet.recording.files import FolderLock, append_lines, sync_files
from lefleet.recording.labels import Outcome, add_label
from lefleet.recording.provenance import ExecutedSource, FrameSources
from lefleet.recording.recovery import recover, settle

_LOG = logging.getLogger(__name__)
_LITTLE_SPACE = 1 << 20
"""A disk with less is full: LeRobot reports that in many words, or not at all."""


class RecordedDataset(LeRobotDataset):
    """Records as LeRobot does, and keeps what is finished whatever happens to the process.

    LeRobot appends episodes to open files and ends those when the recording ends, so that a killed
    process loses all of them. Here each episode gets files of its own, as the first one does after
    `LeRobotDataset.resume`. They are closed and on disk when `save_episode` returns, and never
    opened again. A kill while an episode is being saved is repaired by `recover`, which `resume`
    calls.

    A full disk, or anything else that keeps an episode from being written, ends the recording and
    not the robot: `ended` says why, later frames are counted in `dropped_frames`, the episodes
    before stay.

    One control loop calls everything, as with LeRobot's own. The folder is locked until `finalize`.
    """

    _is_finalized: bool

    @classmethod
    def create(cls, *arguments: Any, **settings: Any) -> Self:
        _require_immediate_encoding(settings)
        dataset: Self = super().create(*arguments, **settings)
        dataset._begin()
        return dataset

    @classmethod
    def resume(cls, repo_id: str, root: str | Path | None = None, **settings: Any) -> Self:
        _require_immediate_encoding(settings)
        if root:
            recover(Path(root))
        dataset: Self = super().resume(repo_id, root, **settings)
        dataset._begin()
        return dataset

    def _begin(self) -> None:
        self.ended = ""
        """Why nothing is recorded any more; empty while it is."""
        self.dropped_frames = 0
        self._is_unsettled = False
        self._outcome: Callable[[], Outcome | None] = lambda: None
        self._sources = FrameSources()
        self._synced = {self.root, *self.root.parents}
        self._lock = FolderLock(self.root)
        self._note_state()

    def attach(
        self,
        *,
        executed: ExecutedSource = lambda: None,
        outcome: Callable[[], Outcome | None] = lambda: None,
    ) -> None:
        """Say where provenance and outcomes come from: `executed` is asked for every frame,
        `outcome` when an episode is saved; None is unknown."""
        self._sources.executed = executed
        self._outcome = outcome

    def acted(self) -> None:
        """The robot was sent an action. Call it for every action, in the tick of that action, where
        a strategy may add frames later than that, as LeRobot's highlight strategy does."""
        self._sources.acted()

    def add_frame(self, frame: dict[str, Any]) -> None:
        if self.ended:
            self.dropped_frames += 1
            return
        is_intervention = bool(frame.get("intervention", False))
        try:
            super().add_frame(frame)
        except (OSError, RuntimeError) as error:  # RuntimeError: an encoder's thread has crashed.
            self.dropped_frames += 1 + self.writer.episode_buffer["size"]
            self._end(error)
        else:
            self._sources.add_frame(is_intervention=is_intervention)

    def save_episode(
        self, episode_data: dict[str, Any] | None = None, parallel_encoding: bool = True
    ) -> None:
        if self.ended:
            return
        if episode_data is None and not self.has_pending_frames():
            super().save_episode()  # raises what a strategy expects
        frames = (episode_data or self.writer.episode_buffer)["size"]
        if frames == 1 and self._is_streaming():
            # LeRobot has no statistics of its video, and refuses to load metadata that differ.
            _LOG.warning("An episode of one frame is not recorded")
            self.dropped_frames += 1
            self.clear_episode_buffer()
            return
        try:
            self._save_episode(episode_data, parallel_encoding)
        except BaseException as error:
            self.dropped_frames += frames
            self._end(error)
            if not isinstance(error, Exception):  # An interrupt; the robot goes on after others.
                raise

    def clear_episode_buffer(self, delete_images: bool = True) -> None:
        self._sources.clear()
        if not self.ended:
            super().clear_episode_buffer(delete_images)

    def finalize(self) -> None:
        if self._is_finalized:
            return
        try:
            super().finalize()
        except OSError as error:
            if not self.ended:
                self._end(error)
        self._is_finalized = True
        # Read again from disk when somebody asks: see `_start_new_files`.
        self.meta.episodes = None
        if not self._is_unsettled:
            (self.root / state.FILE).unlink(missing_ok=True)
        self._lock.release()

    def _save_episode(self, episode_data: dict[str, Any] | None, parallel_encoding: bool) -> None:
        """What may be removed again comes first; the metadata's file, which finishes the episode,
        is closed last."""
        episode = self.meta.total_episodes
        outcome = self._outcome()
        self._note_state()
        append_lines(self.root / provenance.FILE, self._provenance(episode))
        if outcome is not None:
            add_label(self.root, episode, outcome)
        self._require_images()
        super().save_episode(episode_data, parallel_encoding)
        self.writer.close_writer()
        metadata, others = self._files_of_newest()
        sync_files([*others, *self._overwritten()], self._synced)
        self.meta._close_writer()  # noqa: SLF001 - its footer, without ending the recording
        sync_files([metadata], self._synced)
        self._start_new_files()
        self._sources.clear()

    def _note_state(self) -> None:
        state.note_state(self.root, self.meta.total_episodes, self.root / provenance.FILE)

    def _provenance(self, episode: int) -> list[bytes]:
        return provenance.encode_rows(self._sources.rows(episode))

    def _require_images(self) -> None:
        """LeRobot prints why an image was not written, and goes on with a video that lacks it."""
        if self.writer.image_writer is not None:
            self.writer.image_writer.wait_until_done()
        for camera in self.meta.camera_keys:
            for path in self.writer.episode_buffer[camera]:
                if path is not None and not (Path(path).exists() and Path(path).stat().st_size):
                    raise OSError(f"{path} could not be written")

    def _is_streaming(self) -> bool:
        """Whether videos are encoded while frames come in, so that there are no image files."""
        buffer = self.writer.episode_buffer
        return any(buffer[key][0] is None for key in self.meta.video_keys)

    def _files_of_newest(self) -> tuple[Path, list[Path]]:
        """The file of the newest episode's metadata, and those of its data and videos."""
        newest, meta = self.meta.latest_episode, self.meta

        def path(pattern: str, place: str, **names: str) -> Path:
            chunk, file = newest[f"{place}/chunk_index"][0], newest[f"{place}/file_index"][0]
            return Path(self.root, pattern.format(chunk_index=chunk, file_index=file, **names))

        videos = [path(meta.video_path, f"videos/{key}", video_key=key) for key in meta.video_keys]
        metadata = path(DEFAULT_EPISODES_PATH, "meta/episodes")
        return metadata, [path(meta.data_path, "data"), *videos]

    def _overwritten(self) -> list[Path]:
        return [self.root / name for name in state.OVERWRITTEN]

    def _start_new_files(self) -> None:
        """Bring LeRobot into the state of a dataset that was just resumed: the next episode begins
        files behind those of the last one it knows."""
        newest = self.meta.latest_episode
        self.meta.episodes = [{name: values[0] for name, values in newest.items()}]
        self.meta.latest_episode = None
        self.writer._latest_episode = None  # noqa: SLF001 - LeRobot has no other way to say so

    def _end(self, error: BaseException) -> None:
        """Stop recording, and leave the finished episodes as they are."""
        self.ended = _reason(error, self.root)
        trace = None if isinstance(error, OSError) else error
        _LOG.error("Recording ended, the robot goes on: %s", self.ended, exc_info=trace)
        self._sources.clear()
        with suppress(Exception):
            super().clear_episode_buffer()
        # What is left in it belongs to the episode that failed, and closing would write it.
        self.meta._metadata_buffer.clear()  # noqa: SLF001
        for close in (self.writer.close_writer, self.meta._close_writer):  # noqa: SLF001
            with suppress(Exception):
                close()
        try:
            self._settle()
        except (OSError, LeFleetError) as problem:
            self._is_unsettled = True
            _LOG.error("%s must be recovered before it is loaded: %s", self.root, problem)

    def _settle(self) -> None:
        if (before := state.read_state(self.root)) is not None:
            settle(self.root, before)
        self.meta.info = load_info(self.root)
        self.meta.stats = load_stats(self.root)
        self.meta.tasks = load_tasks(self.root) if self.meta.total_tasks else None


def _require_immediate_encoding(settings: dict[str, Any]) -> None:
    if settings.get("batch_encoding_size", 1) != 1:
        raise BadInput(
            "dataset.video_encoding_batch_size: videos that are encoded later are lost in a kill.",
            "Leave it at 1.",
        )


def _reason(error: BaseException, root: Path) -> str:
    """A full disk shows in many ways, for instance as an image that cannot be read back."""
    full = (errno.ENOSPC, errno.EDQUOT)
    is_full = getattr(error, "errno", None) in full or "No space left" in str(error)
    with suppress(OSError):
        is_full |= shutil.disk_usage(root).free < _LITTLE_SPACE
    if is_full:
        return f"no space is left on the disk of {root}"
    return f"{type(error).__name__}: {error}"
