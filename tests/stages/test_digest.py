"""The same digest means the same data, or the same behaviour."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lefleet.errors import BadInput
from lefleet.stages.digest import checkpoint_digest, dataset_digest, file_digest

INFO = {
    "fps": 80,
    "features": {"action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]}},
}
READ = (
    "config.json",
    "model.safetensors",
    "policy_preprocessor.json",
    "policy_preprocessor_step_3_normalizer_processor.safetensors",
    "policy_postprocessor.json",
    "spm.model",
    "merges.txt",
    "chat_template.jinja",
    "tokenizer/vocab.txt",
    "adapter_model.bin",
    "lefleet.json",
)
ACTIONS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "pretrained_model"
    (folder / "tokenizer").mkdir(parents=True)
    for name in READ:
        (folder / name).write_text('{"type": "act"}')
    return folder


def write_table(path, actions=ACTIONS, episodes=(0, 0, 1), tasks=(0, 0, 0), **columns):
    rows = range(len(actions))
    table = {
        "action": pa.array(actions, pa.list_(pa.float32(), 2)),
        "episode_index": episodes,
        "task_index": tasks,
        "index": list(rows),
        "frame_index": list(rows),
        "timestamp": [row / 80 for row in rows],
    }
    pq.write_table(pa.table(table | columns), path)
    return path


def digest(path, episodes=(0, 1), tasks=None, info=INFO, videos=()) -> str:
    return dataset_digest(info, episodes, tasks or {0: "push"}, [path], videos)


@pytest.mark.parametrize("name", READ)
def test_every_file_that_inference_may_read_counts(checkpoint, name):
    before = checkpoint_digest(checkpoint)
    (checkpoint / name).write_text('{"type": "diffusion"}')
    assert checkpoint_digest(checkpoint) != before


def test_the_names_of_files_count(checkpoint):
    before = checkpoint_digest(checkpoint)
    (checkpoint / "model.safetensors").rename(checkpoint / "adapter.safetensors")
    assert checkpoint_digest(checkpoint) != before


def test_a_further_file_for_inference_counts(checkpoint):
    before = checkpoint_digest(checkpoint)
    (checkpoint / "adapter.safetensors").write_text("")
    assert checkpoint_digest(checkpoint) != before


@pytest.mark.parametrize("name", ["train_config.json", "README.md", ".gitattributes"])
def test_what_inference_does_not_read_does_not_count(checkpoint, name):
    before = checkpoint_digest(checkpoint)
    (checkpoint / name).write_text("{}")
    assert checkpoint_digest(checkpoint) == before


def test_where_the_weights_were_first_loaded_from_does_not_count(checkpoint):
    before = checkpoint_digest(checkpoint)
    (checkpoint / "config.json").write_text('{"type": "act", "pretrained_path": "/elsewhere"}')
    assert checkpoint_digest(checkpoint) == before


def test_a_copy_elsewhere_has_the_same_digest(checkpoint, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copies") / "copy"
    shutil.copytree(checkpoint, copy)
    assert checkpoint_digest(copy) == checkpoint_digest(checkpoint)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("adapter_config.json", {"base_model_name_or_path": "BASE"}),
        ("policy_preprocessor.json", {"steps": [{"config": {"tokenizer_name": "BASE"}}]}),
        ("policy_preprocessor.json", {"steps": [{"config": {"processor_name": "BASE"}}]}),
        ("config.json", {"type": "smolvla", "vlm_model_name": "BASE"}),
    ],
)
def test_folders_elsewhere_that_inference_reads_count(checkpoint, tmp_path, file, content):
    base = tmp_path / "base"
    base.mkdir()
    (base / "vocab.txt").write_text("one")
    (checkpoint / file).write_text(json.dumps(content).replace("BASE", str(base)))
    before = checkpoint_digest(checkpoint)
    (base / "vocab.txt").write_text("two")
    assert checkpoint_digest(checkpoint) != before


def test_files_in_a_linked_folder_count(checkpoint, tmp_path):
    vocabulary = tmp_path / "elsewhere" / "vocab.txt"
    vocabulary.parent.mkdir()
    vocabulary.write_text("one")
    (checkpoint / "linked").symlink_to(vocabulary.parent)
    before = checkpoint_digest(checkpoint)
    vocabulary.write_text("two")
    assert checkpoint_digest(checkpoint) != before


def test_a_checkpoint_may_name_and_link_to_its_own_folder(checkpoint):
    steps = [{"config": {"tokenizer_name": str(checkpoint)}}]
    (checkpoint / "policy_preprocessor.json").write_text(json.dumps({"steps": steps}))
    (checkpoint / "itself").symlink_to(checkpoint)
    before = checkpoint_digest(checkpoint)
    (checkpoint / "merges.txt").write_text("other")
    assert checkpoint_digest(checkpoint) != before


@pytest.fixture
def read(monkeypatch):
    """Paths of files that were read, in order."""
    paths, digest_of = [], hashlib.file_digest

    def reading(file, kind):
        paths.append(Path(file.name))
        return digest_of(file, kind)

    monkeypatch.setattr("hashlib.file_digest", reading)
    return paths


def test_a_file_is_read_again_only_when_it_changed(tmp_path, monkeypatch, read):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"old weights")
    now = time.time_ns()
    monkeypatch.setattr("time.time_ns", lambda: now + 60_000_000_000)
    assert file_digest(file) == file_digest(file)
    (tmp_path / "link").symlink_to(file)
    file_digest(tmp_path / "link")
    assert read == [file]


def test_a_file_that_was_just_written_is_read_again(tmp_path, monkeypatch, read):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"old weights")
    written = file.stat().st_ctime_ns
    monkeypatch.setattr("time.time_ns", lambda: written + 1_000_000)
    assert file_digest(file) == file_digest(file)
    assert read == [file, file]


def test_a_change_in_place_that_keeps_size_and_time_is_seen(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"old weights")
    before, when = file_digest(file), file.stat().st_mtime_ns
    with file.open("r+b") as same:
        same.write(b"new")
    os.utime(file, ns=(when, when))
    assert file_digest(file) != before


def test_a_config_that_is_no_json_is_bad_input(checkpoint):
    (checkpoint / "config.json").write_text("{")
    with pytest.raises(BadInput, match="is not JSON"):
        checkpoint_digest(checkpoint)


def test_every_value_of_the_data_counts(tmp_path):
    one = write_table(tmp_path / "one")
    other = write_table(tmp_path / "other", actions=[*ACTIONS[:2], [5.0, 6.5]])
    assert digest(one) != digest(other)


def test_values_of_episodes_that_are_not_used_do_not_count(tmp_path):
    one = write_table(tmp_path / "one")
    other = write_table(tmp_path / "other", actions=[*ACTIONS[:2], [5.0, 6.5]])
    assert digest(one, episodes=(0,)) == digest(other, episodes=(0,))


def test_positions_in_files_do_not_count(tmp_path):
    alone = write_table(tmp_path / "alone", ACTIONS[2:], episodes=(0,), tasks=(0,))
    behind = write_table(tmp_path / "behind", tasks=(0, 0, 1))
    assert digest(alone, (0,), {0: "push"}) == digest(behind, (1,), {0: "reach", 1: "push"})


def test_the_order_of_episodes_counts(tmp_path):
    path = write_table(tmp_path / "one")
    assert digest(path, (0, 1)) != digest(path, (1, 0))


def test_task_texts_features_and_rate_count(tmp_path):
    path = write_table(tmp_path / "one")
    renamed = {"action": INFO["features"]["action"] | {"names": ["y", "x"]}}
    digests = {
        digest(path),
        digest(path, tasks={0: "reach"}),
        digest(path, info=INFO | {"fps": 40}),
        digest(path, info=INFO | {"features": renamed}),
    }
    assert len(digests) == 4


def test_videos_count_by_content(tmp_path):
    path = write_table(tmp_path / "one")
    (tmp_path / "a.mp4").write_bytes(b"a")
    before = digest(path, videos=[tmp_path / "a.mp4"])
    (tmp_path / "a.mp4").write_bytes(b"b")
    assert digest(path, videos=[tmp_path / "a.mp4"]) != before != digest(path)


def test_columns_that_are_no_numbers_have_one_digest_in_every_process(tmp_path):
    path = write_table(
        tmp_path / "one",
        text=["left", "right", "left"],
        image=[{"bytes": b"png", "path": None}] * 3,
    )
    code = (
        "import sys; from pathlib import Path; ballast = ['x' * n for n in range(999)]\n"
        "from lefleet.stages.digest import dataset_digest\n"
        f"print(dataset_digest({INFO!r}, (0, 1), {{0: 'push'}}, [Path(sys.argv[1])], []))"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert elsewhere.stdout.strip() == digest(path)


def test_values_of_a_text_column_count(tmp_path):
    one = write_table(tmp_path / "one", extra=["a", "b", "c"])
    assert digest(one) != digest(write_table(tmp_path / "other", extra=["a", "b", "d"]))


def test_where_a_list_ends_counts(tmp_path):
    one = write_table(tmp_path / "one", extra=[["a"], ["b"], []])
    other = write_table(tmp_path / "other", extra=[["a", "b"], [], []])
    assert digest(one) != digest(other)
