"""Labels from commands and pages: in the ledger and in the dataset, through kills and repeats."""

import json
import shutil
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from lefleet.actions.labels import label_episode
from lefleet.errors import BadInput, Conflict, LeFleetError
from lefleet.ledger import open_ledger, read_ledger
from lefleet.queries.datasets import datasets
from lefleet.queries.episodes import episode
from lefleet.recording import outcomes
from tests.recording import frames

KILLED = """
import os, signal, sys
from pathlib import Path
from lefleet.actions import labels
from lefleet.ledger.labels import LabelStore

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

where, workdir, root, key = sys.argv[1:]
if where == "before the line":
    labels.write_label = die
else:
    LabelStore.mark_written = die
labels.label_episode(
    Path(workdir), Path(root), 0, "success", source="page", who="anna", note="first", key=key
)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    root = tmp_path_factory.mktemp("recorded") / "door"
    dataset = frames.create(root, "state")
    for number in range(3):
        frames.add_frames(dataset, number, "state")
        dataset.save_episode()
    dataset.finalize()
    return root


@pytest.fixture
def root(tmp_path, recorded):
    return shutil.copytree(recorded, tmp_path / "datasets/door")


@pytest.fixture
def workdir(tmp_path):
    return tmp_path / "runs"


def lines(root) -> list[dict]:
    path = root / "outcomes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rows(workdir, root):
    """Of the dataset, oldest first."""
    with closing(read_ledger(workdir)) as ledger:
        found = [row for episode in range(10) for row in ledger.labels.history(str(root), episode)]
        return sorted(found, key=lambda row: row.id)


def say(workdir, root, outcome="success", **changes):
    settings = {"episode": 0, "source": "page", "who": "anna"} | changes
    return label_episode(workdir, root, settings.pop("episode"), outcome, **settings)


def test_a_label_is_a_row_and_a_line_with_the_same_key_person_and_time(workdir, root):
    said = say(workdir, root, "failure", note="it slipped", key="k1")
    (row,), (line,) = rows(workdir, root), lines(root)
    assert (row.key, row.episode, row.success, row.source) == ("k1", 0, False, "page")
    assert (row.who, row.note, row.is_written) == ("anna", "it slipped", True)
    assert line == {
        "success": False,
        "source": "page",
        "who": "anna",
        "note": "it slipped",
        "episode": 0,
        "at": said.added.at,
        "key": "k1",
    }
    assert said.is_new
    assert said.counts == said.added == outcomes(root)[0]


def test_a_later_label_is_a_new_row_and_can_be_taken_back(workdir, root):
    say(workdir, root, "success")
    assert say(workdir, root, "failure", who="ben").counts.success is False
    assert say(workdir, root, "undo").counts.success is True
    assert say(workdir, root, "undo").counts is None
    assert [(row.success, row.is_undo) for row in rows(workdir, root)] == [
        (True, False),
        (False, False),
        (None, True),
        (None, True),
    ]
    assert [row.key for row in rows(workdir, root)] == [one["key"] for one in lines(root)]


def test_a_repeated_request_changes_nothing(workdir, root):
    first = say(workdir, root, "success", key="k1")
    say(workdir, root, "failure", who="ben")
    again = say(workdir, root, "success", key="k1")
    assert (again.is_new, again.added) == (False, first.added)
    assert again.counts.who == "ben"
    assert (len(rows(workdir, root)), len(lines(root))) == (2, 2)


@pytest.mark.parametrize(
    "other", [{"outcome": "failure"}, {"outcome": "undo"}, {"episode": 1}, {"who": "ben"}]
)
def test_a_key_is_not_used_for_something_else(workdir, root, other):
    say(workdir, root, "success", key="k1")
    with pytest.raises(Conflict, match="key: k1 is that of another label"):
        say(workdir, root, **{"key": "k1", "outcome": "success"} | other)
    assert (len(rows(workdir, root)), len(lines(root))) == (1, 1)


def test_a_key_of_another_dataset_is_a_conflict(workdir, root, tmp_path, recorded):
    say(workdir, root, key="k1")
    other = shutil.copytree(recorded, tmp_path / "datasets/other")
    with pytest.raises(Conflict, match="another dataset"):
        say(workdir, other, key="k1")


def test_without_a_ledger_the_label_is_only_in_the_dataset(tmp_path, root):
    first = say(None, root, key="k1")
    assert say(None, root, key="k1").added == first.added
    assert len(lines(root)) == 1
    say(None, root, "undo")
    assert not outcomes(root)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["datasets"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"episode": 3}, "has no episode 3: it has episodes 0 to 2"),
        ({"episode": -1}, "has no episode -1"),
        ({"outcome": "undo"}, "has no label of episode 0 to take back"),
        ({"note": "x" * 2001}, "note: 2001 characters. Use at most 2000"),
        ({"key": "a\nb"}, "key: "),
        ({"key": "x" * 201}, "key: "),
    ],
)
def test_what_cannot_be_said_leaves_nothing(workdir, root, request_, message):
    with pytest.raises(BadInput, match=message):
        say(workdir, root, **request_)
    assert (rows(workdir, root), lines(root)) == ([], [])


def test_text_of_people_becomes_printable_and_one_line(workdir, root):
    say(workdir, root, who="an\x1b[31mna", note="it\nslipped\x00 <script>alert(1)</script>")
    (row,) = rows(workdir, root)
    assert (row.who, row.note) == ("an?[31mna", "it slipped? <script>alert(1)</script>")


def test_a_dataset_has_one_name_whatever_link_leads_to_it(workdir, root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    say(workdir, tmp_path / "link")
    assert len(rows(workdir, root)) == 1


def kill(where: str, workdir, root, key: str = "k1") -> None:
    argv = [sys.executable, "-c", KILLED, where, str(workdir), str(root), key]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize("where", ["before the line", "before the mark"])
def test_a_kill_loses_and_doubles_nothing(workdir, root, where):
    kill(where, workdir, root)
    assert [row.is_written for row in rows(workdir, root)] == [False]
    again = say(workdir, root, "success", note="first", key="k1")
    assert (again.is_new, again.counts.note) == (False, "first")
    assert [row.is_written for row in rows(workdir, root)] == [True]
    assert [one["key"] for one in lines(root)] == ["k1"]


@pytest.mark.parametrize("where", ["before the line", "before the mark"])
def test_the_next_label_completes_the_one_that_was_killed_and_comes_after_it(workdir, root, where):
    kill(where, workdir, root)
    assert say(workdir, root, "failure", who="ben").counts.success is False
    assert say(workdir, root, "success", key="k1").counts.success is False
    assert [one["who"] for one in lines(root)] == ["anna", "ben"]
    assert say(workdir, root, "undo").counts.note == "first"


def test_a_label_whose_line_is_missing_is_shown_and_counts(workdir, root):
    kill("before the line", workdir, root)
    assert lines(root) == []
    with closing(read_ledger(workdir)) as ledger:
        (card,) = datasets(ledger, workdir, [root.parent])
        found = episode(ledger, workdir, [root.parent], card.id, 0)
    assert (card.successes, card.unlabelled) == (1, 2)
    (said,) = found.history
    assert (said.who, said.counts, said.is_in_ledger, said.is_in_dataset) == (
        "anna",
        True,
        True,
        False,
    )
    assert found.label.outcome == "success"


def test_labels_of_a_dataset_that_was_replaced_are_not_given_to_the_new_one(
    workdir, root, recorded
):
    say(workdir, root, "failure")
    shutil.rmtree(root)
    shutil.copytree(recorded, root)
    say(workdir, root, "success", episode=1)
    assert [one["episode"] for one in lines(root)] == [1]
    with closing(read_ledger(workdir)) as ledger:
        (card,) = datasets(ledger, workdir, [root.parent])
        found = episode(ledger, workdir, [root.parent], card.id, 0)
    assert found.label is None
    assert [(one.outcome, one.counts, one.is_in_dataset) for one in found.history] == [
        ("failure", False, False)
    ]


def test_processes_that_label_at_the_same_time_keep_one_order(workdir, root):
    open_ledger(workdir).close()
    code = (
        "import sys; from pathlib import Path; from lefleet.actions.labels import label_episode\n"
        "for n in range(10):\n"
        "    label_episode(Path(sys.argv[1]), Path(sys.argv[2]), n % 3, 'success', source='page',"
        " who=sys.argv[3], key=f'k{n}' if sys.argv[3] == 'twins' else '')"
    )
    argv = [sys.executable, "-c", code, str(workdir), str(root)]
    writers = [subprocess.Popen([*argv, who]) for who in ("anna", "ben", "twins", "twins")]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0, 0]
    made = rows(workdir, root)
    assert len(made) == 30
    assert [row.key for row in made] == [one["key"] for one in lines(root)]
    assert all(row.is_written for row in made)


def test_a_dataset_that_cannot_be_written_to_is_a_clear_error(workdir, root):
    say(workdir, root)
    (root / "outcomes.jsonl").rename(root / "kept")
    (root / "outcomes.jsonl").mkdir()
    with pytest.raises(LeFleetError, match="could not be written") as caught:
        say(workdir, root, "failure")
    assert caught.value.remedy
    (root / "outcomes.jsonl").rmdir()
    (root / "kept").rename(root / "outcomes.jsonl")
    assert say(workdir, root, "failure", who="ben").counts.who == "ben"
    assert [row.who for row in rows(workdir, root)] == ["anna", "ben"]
    assert [one["who"] for one in lines(root)] == ["anna", "ben"]


def test_labelling_needs_neither_lerobot_nor_torch(workdir, root):
    code = (
        "import sys; from pathlib import Path; from lefleet.actions.labels import label_episode\n"
        "label_episode(Path(sys.argv[1]), Path(sys.argv[2]), 0, 'success', source='page', who='a')"
        "\nassert not {'torch', 'lerobot', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(workdir), str(root)], check=True)
