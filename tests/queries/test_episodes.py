"""Recorded datasets and episodes as pages and API see them: real recordings, live ones, broken and
hostile ones."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lefleet.errors import BadInput, Unknown
from lefleet.ledger import open_ledger
from lefleet.queries import dataset_files, episode_index
from lefleet.queries.datasets import dataset, dataset_id, datasets
from lefleet.queries.episodes import episode, episodes, video_file
from lefleet.recording import Outcome, label
from lefleet_client.stream import Executed
from lefleet_client.stream.queue import Origin
from tests.ledger.ledgers import REQUEST
from tests.recording import frames
from tests.samples import checkpoint_record, dataset_record

DIGEST = "d" * 64
SCRIPT = "<script>alert(1)</script>\n& 'more'"


def executed(number: int) -> Executed | None:
    """Frame 0 was a fallback, frame 1 an action of a person, the others of a server."""
    if number == 1:
        return None
    origin = None if number == 0 else Origin(0.0, "session", number, 0, DIGEST, "server-1")
    return Executed(origin, 0, 0.1)


def record(root: Path, mode: str, count: int):
    made = frames.create(root, mode)
    for number in range(count):
        numbers = iter(range(100))
        made.attach(executed=lambda numbers=numbers: executed(next(numbers)))
        frames.add_frames(made, number, mode)
        made.save_episode()
    return made


@pytest.fixture(scope="module", params=["streaming", "images", "state"])
def recorded(request, tmp_path_factory):
    """A recording of three episodes, and how its camera is stored."""
    root = tmp_path_factory.mktemp(request.param) / "door"
    record(root, request.param, 3).finalize()
    return root, request.param


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    root = tmp_path_factory.mktemp("film") / "door"
    record(root, "streaming", 3).finalize()
    return root


@pytest.fixture
def root(tmp_path, film):
    return shutil.copytree(film, tmp_path / "datasets/door")


@pytest.fixture
def here(tmp_path):
    """Ledger, work folder and folders with datasets."""
    workdir = tmp_path / "runs"
    with closing(open_ledger(workdir)) as ledger:
        yield ledger, workdir, [tmp_path / "datasets"]


def test_a_recording_is_shown_however_its_camera_is_stored(recorded, here):
    root, mode = recorded
    where = (*here[:2], [root.parent])
    (card,) = datasets(*where)
    cameras = [(one.key, one.name, one.is_video) for one in card.cameras]
    assert cameras == ([] if mode == "state" else [(frames.CAMERA, "top", mode == "streaming")])
    assert (card.name, card.episodes, card.frames, card.fps) == ("door", 3, 15, 30)
    assert (card.tasks, card.robot_type) == (("task 0", "task 1", "task 2"), "test")
    assert (card.problem, card.is_missing, card.is_recording, card.uses) == ("", False, False, ())
    page = episodes(*where, card.id)
    assert (page.total, [one.index for one in page.items]) == (3, [0, 1, 2])
    assert [(one.task, one.length) for one in page.items] == [
        (frames.task(number), frames.length(number)) for number in range(3)
    ]
    found = episode(*where, card.id, 2)
    assert (found.previous, found.next, found.problem) == (1, None, "")
    assert found.seconds == pytest.approx(6 / 30)
    assert found.tracks.seconds == pytest.approx([n / 30 for n in range(6)], abs=1e-4)
    tracks = {(one.kind, one.name): one.values for one in found.tracks.tracks}
    assert [name for _, name in tracks] == ["x.pos", "y.pos", "z.pos"] * 2
    assert tracks["action", "z.pos"] == (200, 201, 202, 203, 204, 205)
    assert tracks["state", "z.pos"] == pytest.approx([(200 + n) / 7 for n in range(6)], rel=1e-6)
    assert len(found.videos) == (mode == "streaming")
    msgspec.json.encode([card, page, found])


def test_where_the_actions_of_an_episode_came_from(root, here):
    ledger, _, _ = here
    ledger.create_run("demo", {})
    ledger.commit_stage(
        ledger.start_attempt("demo", 1, "train", REQUEST), checkpoint_record(digest=DIGEST)
    )
    found = episode(*here, dataset_id(root), 0)
    assert msgspec.structs.asdict(found.frames) == {"server": 2, "fallback": 1, "other": 1}
    assert found.is_corrected
    (acted,) = found.checkpoints
    assert (acted.digest, acted.server, acted.frames) == (DIGEST, "server-1", 2)
    assert (acted.run, acted.cycle) == ("demo", 1)


def test_the_film_of_an_episode(root, here):
    path, from_s, to_s = video_file(*here, dataset_id(root), 1, camera=frames.CAMERA)
    assert path.is_relative_to(root)
    assert (path.suffix, from_s, to_s) == (".mp4", 0.0, pytest.approx(5 / 30))
    with pytest.raises(Unknown, match="no film of episode 0") as caught:
        video_file(*here, dataset_id(root), 0, camera="observation.images.other")
    assert frames.CAMERA in caught.value.remedy
    path.unlink()
    with pytest.raises(Unknown, match="is missing"):
        video_file(*here, dataset_id(root), 1, camera=frames.CAMERA)


def test_images_in_the_data_have_no_film_and_say_so(here, tmp_path):
    record(tmp_path / "datasets/door", "images", 1).finalize()
    with pytest.raises(Unknown) as caught:
        video_file(*here, dataset_id(tmp_path / "datasets/door"), 0, camera=frames.CAMERA)
    assert "images are in the data" in caught.value.remedy


def test_episodes_that_lerobot_merged_into_one_file(film, here, tmp_path):
    from lerobot.datasets.aggregate import aggregate_datasets

    merged = tmp_path / "datasets/merged"
    aggregate_datasets(["local/a", "local/b"], "local/merged", [film, film], merged)
    page = episodes(*here, dataset_id(merged))
    assert [one.task for one in page.items] == [frames.task(number % 3) for number in range(6)]
    spans = [one.videos[0] for one in page.items]
    assert [one.to_s - one.from_s for one in spans] == pytest.approx([4 / 30, 5 / 30, 6 / 30] * 2)
    found = episode(*here, dataset_id(merged), 4)
    (last,) = [one.values for one in found.tracks.tracks if one.name == "z.pos"][1:]
    assert last == (100, 101, 102, 103, 104)
    path, from_s, _ = video_file(*here, dataset_id(merged), 4, camera=frames.CAMERA)
    assert path.is_file()
    assert from_s > 0


def test_labels_are_counted_filtered_and_told(root, here):
    name = dataset_id(root)
    label(root, 0, False, "key", "anna")
    label(root, 0, True, "command", "ben", note=SCRIPT)
    label(root, 2, None, "environment", "", progress=0.5)
    card = dataset(*here, name)
    assert (card.successes, card.failures, card.unlabelled) == (1, 0, 2)
    first, second, third = episodes(*here, name).items
    assert (first.label.outcome, first.label.who, first.label.note) == ("success", "ben", SCRIPT)
    assert (second.label, third.label.outcome, third.label.progress) == (None, "unknown", 0.5)
    for word, numbers in (("success", [0]), ("failure", []), ("unlabelled", [1, 2])):
        page = episodes(*here, name, label=word)
        assert ([one.index for one in page.items], page.total) == (numbers, len(numbers))
    found = episode(*here, name, 1, label="unlabelled")
    assert (found.previous, found.next) == (None, 2)
    told = [(one.outcome, one.who, one.counts) for one in episode(*here, name, 0).history]
    assert told == [("success", "ben", True), ("failure", "anna", False)]
    with pytest.raises(BadInput, match="label: 'maybe' is no label"):
        episodes(*here, name, label="maybe")


def test_episodes_of_a_task_and_pages_of_them(root, here):
    name = dataset_id(root)
    assert [one.index for one in episodes(*here, name, task="task 1").items] == [1]
    assert episodes(*here, name, task="task 9").items == ()
    page = episodes(*here, name, offset=1, limit=1)
    assert ([one.index for one in page.items], page.total, page.offset) == ([1], 3, 1)
    assert episodes(*here, name, offset=3).items == ()
    with pytest.raises(BadInput, match="limit"):
        episodes(*here, name, limit=201)


def test_what_does_not_exist_is_unknown(root, here):
    for name in ("", "0" * 12, "../../etc", str(root)):
        with pytest.raises(Unknown, match="there is no dataset"):
            dataset(*here, name)
    for number in (3, -1, 10**30):
        with pytest.raises(Unknown, match="It has episodes 0 to 2"):
            episode(*here, dataset_id(root), number)


def test_datasets_of_the_ledger_and_of_folders_are_one_list(root, here, tmp_path):
    ledger, workdir, _ = here
    gone = workdir / "demo/cycle_0/collect/dataset"
    for run in ("demo", "more"):
        ledger.create_run(run, {})
        for place in (gone, root):
            record = dataset_record(digest=place.name, root=str(place), episodes=(0, 2))
            attempt = ledger.start_attempt(run, 0, "collect" if place == gone else "x", REQUEST)
            ledger.commit_stage(attempt, record)
    found = {card.name: card for card in datasets(*here)}
    assert list(found) == [f"demo/cycle_0/x/{root.name}", "demo/cycle_0/collect/dataset"]
    recording, collected = found.values()
    assert (collected.is_missing, collected.problem) == (True, "The folder does not exist.")
    assert collected.id == dataset_id(gone)
    assert [(one.run, one.cycle, one.digest, one.episodes) for one in recording.uses] == [
        ("demo", 0, "door", 2),
        ("more", 0, "door", 2),
    ]
    assert (recording.episodes, recording.id) == (3, dataset_id(root))


def test_folders_are_searched_without_following_links(root, here, tmp_path):
    shutil.copytree(root, tmp_path / "outside/secret")
    (tmp_path / "datasets/link").symlink_to(tmp_path / "outside")
    (tmp_path / "datasets/loop").symlink_to(tmp_path / "datasets")
    shutil.copytree(root, tmp_path / "datasets/a/b/door")
    shutil.copytree(root, tmp_path / "datasets/1/2/3/4/5/too_deep")
    shutil.copytree(root, tmp_path / "datasets/.hidden")
    assert [card.name for card in datasets(*here)] == ["a/b/door", "door"]
    assert datasets(*here[:2], [tmp_path / "none"]) == []
    linked = datasets(*here[:2], [tmp_path / "datasets/link"])
    assert [card.name for card in linked] == ["secret"]


def test_a_dataset_while_it_is_recorded(here, tmp_path):
    root = tmp_path / "datasets/live"
    made = record(root, "streaming", 2)
    name = dataset_id(root)
    frames.add_frames(made, 2, "streaming")
    card = dataset(*here, name)
    assert (card.episodes, card.is_recording, card.problem) == (2, True, "")
    assert [one.task for one in episodes(*here, name).items] == ["task 0", "task 1"]
    label(root, 1, True, "page", "anna")
    made.save_episode()
    assert [one.task for one in episodes(*here, name).items] == ["task 0", "task 1", "task 2"]
    assert len(episode(*here, name, 2).tracks.seconds) == 6
    made.finalize()
    assert not dataset(*here, name).is_recording


def test_an_episode_that_is_being_saved_is_not_there_yet(here, root):
    """LeRobot has counted it already, but its metadata have no end, and info.json may be cut."""
    shutil.copy(root / "meta/info.json", root / "info_before")
    newest = root / "meta/episodes/chunk-000/file-002.parquet"
    whole = newest.read_bytes()
    newest.write_bytes(whole[: len(whole) // 2])
    before = json.loads((root / "info_before").read_text()) | {"total_episodes": 2}
    state = {
        "episodes": 2,
        "small_files": {"meta/info.json": msgspec.json.encode(before)},
        "provenance_bytes": 0,
    }
    (root / "recording.json").write_bytes(msgspec.json.encode(state))
    name = dataset_id(root)
    page = episodes(*here, name)
    assert ([one.index for one in page.items], page.total) == ([0, 1], 2)
    with pytest.raises(Unknown):
        episode(*here, name, 2)
    (root / "meta/info.json").write_text('{"codebase_ver')
    assert (dataset(*here, name).episodes, episodes(*here, name).total) == (2, 2)
    newest.write_bytes(whole)
    shutil.copy(root / "info_before", root / "meta/info.json")
    assert episodes(*here, name).total == 3


def many(root: Path, film: Path, count: int) -> None:
    """A recording with many more episodes: one file of metadata for each, as a robot leaves it."""
    shutil.copytree(film, root)
    folder = root / "meta/episodes/chunk-000"
    table = pq.read_table(folder / "file-000.parquet")
    for number in range(count):
        at = table.column_names.index("episode_index")
        numbered = table.set_column(at, "episode_index", pa.array([number], pa.int64()))
        pq.write_table(numbered, folder / f"file-{number:03d}.parquet")
    info = json.loads((root / "meta/info.json").read_text()) | {"total_episodes": count}
    (root / "meta/info.json").write_text(json.dumps(info))


def test_a_page_of_a_large_recording_reads_only_its_own_files(film, here, tmp_path, monkeypatch):
    root = tmp_path / "datasets/large"
    many(root, film, 300)
    read = []
    original = episode_index.read_entries
    monkeypatch.setattr(
        episode_index, "read_entries", lambda path, *a: read.append(path) or original(path, *a)
    )
    page = episodes(*here, dataset_id(root), offset=100)
    assert [one.index for one in page.items] == list(range(100, 150))
    assert (page.total, len(read)) == (300, 50)
    episodes(*here, dataset_id(root), offset=100)
    assert len(read) == 50
    page = episodes(*here, dataset_id(root), task="task 0", offset=290)
    assert ([one.index for one in page.items], len(read)) == (list(range(290, 300)), 300)
    os.utime(read[7])
    episodes(*here, dataset_id(root), task="task 0")
    assert len(read) == 301


def test_a_long_episode_has_few_points(here, root):
    data = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(data)
    rows = pa.concat_tables([table.slice(0, 1)] * 1999 + [table.slice(3, 1)])
    at = rows.column_names.index("frame_index")
    rows = rows.set_column(at, "frame_index", pa.array(range(2000), pa.int64()))
    pq.write_table(rows, data)
    tracks = episode(*here, dataset_id(root), 0).tracks
    assert (len(tracks.seconds), tracks.seconds[0]) == (500, 0.0)
    assert tracks.seconds[-1] == pytest.approx(1999 / 30, abs=1e-3)
    assert {one.name: one.values[-1] for one in tracks.tracks if one.kind == "action"} == {
        "x.pos": 0,
        "y.pos": 3,
        "z.pos": 3,
    }


def test_what_is_no_number_leaves_a_gap(here, root):
    data = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(data)
    values = [[float("nan"), 1.0, float("inf")], [1.0, 2.0, -float("inf")], None, [1.0]]
    at = table.column_names.index("action")
    pq.write_table(table.set_column(at, "action", pa.array(values, pa.list_(pa.float32()))), data)
    found = episode(*here, dataset_id(root), 0)
    actions = [one.values for one in found.tracks.tracks if one.kind == "action"]
    assert actions == [(None, 1, None, 1), (1, 2, None, None), (None, None, None, None)]
    assert b"NaN" not in msgspec.json.encode(found)


INFOS = {
    "no text": b"\xff\xfe\x00",
    "nothing": b"",
    "no object": b"[]",
    "deep": b"[" * 100_000,
    "a number as text": {"total_episodes": "three"},
    "a negative number": {"total_episodes": -1},
    "a fraction": {"total_episodes": 2.5},
    "endless": {"total_episodes": 10**30},
    "no rate": {"fps": 0},
    "a rate without end": {"fps": 1e300},
    "features as a list": {"features": []},
    "a feature as text": {"features": {"action": "float32"}},
    "a template as a number": {"video_path": 3},
    "another version": {"codebase_version": "v2.1"},
}


@pytest.mark.parametrize("change", INFOS.values(), ids=INFOS)
def test_a_description_that_makes_no_sense_is_a_problem_of_its_card(root, here, change):
    path = root / "meta/info.json"
    if isinstance(change, dict):
        change = json.dumps(json.loads(path.read_text()) | change).encode()
    path.write_bytes(change)
    (card,) = datasets(*here)
    assert card.problem
    assert (card.episodes, card.is_missing) == (0, False)
    msgspec.json.encode(card)
    for ask in (lambda: episodes(*here, card.id), lambda: episode(*here, card.id, 0)):
        with pytest.raises(BadInput):
            ask()


def test_a_dataset_with_more_episodes_than_anybody_lists_is_refused(root, here):
    path = root / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"total_episodes": 10**12}))
    (card,) = datasets(*here)
    assert (card.episodes, card.unlabelled) == (10**12, 10**12)
    with pytest.raises(BadInput, match="at most 200000 are shown"):
        episodes(*here, card.id)


@pytest.mark.parametrize(
    "template",
    [
        "../../../etc/passwd",
        "/etc/passwd",
        "videos/../../../outside/file.mp4",
        "{video_key}/../../../outside/file.mp4",
        "escape/file.mp4",
        "{video_key.__class__.__mro__}/{chunk_index:>99999999999}.mp4",
        "a\0b.mp4",
        "loop/file.mp4",
        "",
    ],
)
def test_a_template_cannot_lead_out_of_the_dataset(root, here, tmp_path, template):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file.mp4").write_text("secret")
    (root / "escape").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to("loop")
    path = root / "meta/info.json"
    fields = {"video_path": template, "data_path": template}
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    name = dataset_id(root)
    with pytest.raises(BadInput):
        video_file(*here, name, 0, camera=frames.CAMERA)
    found = episode(*here, name, 0)
    assert found.problem
    assert found.tracks.tracks == ()
    assert episodes(*here, name).total == 3


def test_a_film_in_the_cache_of_the_hub_is_a_link_to_its_blob(root, here, tmp_path):
    snapshot = tmp_path / "datasets/repo/snapshots/abc"
    shutil.copytree(root, snapshot)
    path, _, _ = video_file(*here, dataset_id(snapshot), 0, camera=frames.CAMERA)
    blob = tmp_path / "datasets/repo/blobs/0123"
    blob.parent.mkdir()
    path.rename(blob)
    path.symlink_to(blob)
    assert video_file(*here, dataset_id(snapshot), 0, camera=frames.CAMERA)[0] == path


def test_texts_of_others_stay_text(here, root):
    folder = root / "meta/episodes/chunk-000"
    table = pq.read_table(folder / "file-000.parquet")
    at = table.column_names.index("tasks")
    pq.write_table(
        table.set_column(at, "tasks", pa.array([[SCRIPT, "x" * 5000]])), folder / "file-000.parquet"
    )
    names = {"task_index": [0, 1], "task": [SCRIPT, "task 1"]}
    pq.write_table(pa.table(names), root / "meta/tasks.parquet")
    path = root / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"robot_type": SCRIPT}))
    card = dataset(*here, dataset_id(root))
    assert (card.tasks, card.robot_type) == ((SCRIPT, "task 1"), SCRIPT)
    first = episodes(*here, card.id).items[0]
    assert first.task.startswith(SCRIPT)
    assert len(first.task) < 1100
    assert [one.index for one in episodes(*here, card.id, task=SCRIPT).items] == [0]


@pytest.mark.parametrize(
    "damage",
    [
        "meta/episodes/chunk-000/file-001.parquet",
        "meta/tasks.parquet",
        "outcomes.jsonl",
        "provenance.jsonl",
        "data/chunk-000/file-001.parquet",
    ],
)
@pytest.mark.parametrize("how", ["garbage", "pipe", "missing"])
def test_damaged_files_are_told_and_never_end_a_list(root, here, damage, how):
    label(root, 0, True, "key", "anna")
    path = root / damage
    path.unlink()
    if how == "garbage":
        path.write_bytes(b'{"episode_index":1,\xff}\n' * 3)
    elif how == "pipe":
        os.mkfifo(path)
    (card,) = datasets(*here)
    page = episodes(*here, card.id)
    assert [one.index for one in page.items] == [0, 1, 2]
    told = [card.problem, *(one.problem for one in page.items)]
    try:
        told.append(episode(*here, card.id, 1).problem)
    except BadInput as error:
        told.append(error.problem)
    is_optional = how == "missing" and not damage.endswith("file-001.parquet")
    assert any(told) != is_optional


def test_labels_of_episodes_that_do_not_exist_are_not_counted(root, here):
    (root / "outcomes.jsonl").write_text(
        "".join(
            json.dumps({"success": True, "source": "key", "episode": number, "at": "yesterday"})
            + "\n"
            for number in (-1, 0, 3, 10**30)
        )
    )
    (card,) = datasets(*here)
    assert (card.successes, card.unlabelled) == (1, 2)
    assert episode(*here, card.id, 0).label.at is None


def test_a_small_file_cannot_fill_the_memory(root, here, monkeypatch):
    monkeypatch.setattr(dataset_files, "_LARGEST_TABLE", 10)
    (card,) = datasets(*here)
    assert "too large to be shown" in card.problem
    assert {one.problem for one in episodes(*here, card.id).items} == {
        "Its metadata cannot be read."
    }


def test_reading_needs_neither_lerobot_nor_torch(root, here, tmp_path):
    code = (
        "import sys; from pathlib import Path; from lefleet.ledger import read_ledger\n"
        "from lefleet.queries.datasets import datasets\n"
        "from lefleet.queries.episodes import episode\n"
        "workdir, folder = map(Path, sys.argv[1:]); ledger = read_ledger(workdir)\n"
        "(card,) = datasets(ledger, workdir, [folder])\n"
        "assert episode(ledger, workdir, [folder], card.id, 0).tracks.tracks\n"
        "assert not {'torch', 'lerobot', 'datasets'} & set(sys.modules)"
    )
    argv = [sys.executable, "-c", code, str(here[1]), str(here[2][0])]
    subprocess.run(argv, check=True)


def test_an_outcome_of_the_environment_is_a_label(here, tmp_path):
    made = frames.create(tmp_path / "datasets/door", "state")
    made.attach(outcome=lambda: Outcome(success=False, progress=0.25, source="environment"))
    frames.add_frames(made, 0, "state")
    made.save_episode()
    made.finalize()
    (card,) = datasets(*here)
    said = episode(*here, card.id, 0).label
    assert (said.outcome, said.progress, said.source) == ("failure", 0.25, "environment")
