"""Labels of episodes: the newest counts, and taking one back is a line too."""

import json
import subprocess
import sys

import pytest

from lefleet.errors import BadInput
from lefleet.recording import label, outcomes, undo_label


@pytest.fixture
def root(tmp_path):
    """A folder that says that it has four episodes."""
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text(json.dumps({"total_episodes": 4}))
    return tmp_path


def lines(root) -> list[dict]:
    return [json.loads(line) for line in (root / "outcomes.jsonl").read_text().splitlines()]


def test_the_newest_label_counts(root):
    label(root, 1, True, "key", "anna")
    label(root, 3, None, "environment", "", progress=0.25)
    label(root, 1, False, "command", "ben", note="it slipped")
    found = outcomes(root)
    assert list(found) == [1, 3]
    assert (found[1].success, found[1].who, found[1].note) == (False, "ben", "it slipped")
    assert (found[3].success, found[3].progress) == (None, 0.25)
    assert len(lines(root)) == 3
    assert lines(root)[0] | {"at": ""} == {
        "success": True,
        "source": "key",
        "who": "anna",
        "episode": 1,
        "at": "",
    }
    assert lines(root)[0]["at"].endswith("Z")


def test_a_label_that_is_taken_back_leaves_the_one_before(root):
    label(root, 1, True, "key", "anna")
    label(root, 1, False, "key", "anna")
    label(root, 0, False, "key", "anna")
    assert undo_label(root, "key", "anna").episode == 0
    assert undo_label(root, "key", "anna").episode == 1
    assert {one: found.success for one, found in outcomes(root).items()} == {1: True}
    assert undo_label(root, "command", "ben", episode=1, note="wrong one").is_undo
    assert not outcomes(root)
    assert len(lines(root)) == 6
    with pytest.raises(BadInput, match="no label of any episode to take back"):
        undo_label(root, "key", "anna")


@pytest.mark.parametrize("episode", [-1, 4])
def test_only_finished_episodes_have_labels(root, episode):
    with pytest.raises(BadInput, match=rf"no episode {episode}: it has episodes 0 to 3"):
        label(root, episode, True, "key", "anna")
    assert not (root / "outcomes.jsonl").exists()


def test_a_line_that_a_kill_cut_short_is_ignored_and_then_cut_off(root):
    label(root, 0, True, "key", "anna")
    with (root / "outcomes.jsonl").open("ab") as file:
        file.write(b'{"success":fal')
    assert outcomes(root)[0].success is True
    label(root, 1, False, "key", "anna")
    assert [one["episode"] for one in lines(root)] == [0, 1]


def test_a_line_that_is_none_of_ours_is_named(root):
    (root / "outcomes.jsonl").write_text("{}\n")
    with pytest.raises(BadInput, match=r"outcomes\.jsonl, line 1: "):
        outcomes(root)


def test_processes_label_at_the_same_time(root):
    code = (
        "import sys; from pathlib import Path; from lefleet.recording import label\n"
        "for _ in range(50): label(Path(sys.argv[1]), 2, True, 'command', sys.argv[2])"
    )
    arguments = [sys.executable, "-c", code, str(root)]
    writers = [subprocess.Popen([*arguments, who]) for who in ("anna", "ben")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(lines(root)) == 100


def test_labels_need_neither_lerobot_nor_torch(root):
    code = (
        "import sys; from pathlib import Path; from lefleet.recording import label, outcomes\n"
        "label(Path(sys.argv[1]), 0, True, 'key', 'anna'); outcomes(Path(sys.argv[1]))\n"
        "assert not {'torch', 'lerobot', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(root)], check=True)
