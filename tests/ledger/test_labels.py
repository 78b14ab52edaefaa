"""Labels of episodes and edits of pages in the ledger: one row each, and none is doubled."""

import threading
from contextlib import closing

from sqlalchemy import text

from lefleet.ledger import open_ledger, read_ledger
from tests.ledger.ledgers import only_sqlite


def add(ledger, episode: int, success: bool | None, *, dataset: str = "/data/a", **changes):
    return ledger.labels.add(
        dataset, episode, success, **{"source": "page", "who": "anna"} | changes
    )


def test_a_later_label_is_a_new_row(ledger):
    first, _ = add(ledger, 3, True, key="one")
    second, is_new = add(ledger, 3, False, who="ben", note="it slipped")
    undo, _ = add(ledger, 3, None, is_undo=True, key="three")
    add(ledger, 4, True)
    add(ledger, 3, True, dataset="/data/b")
    assert is_new
    assert (second.who, second.note, second.success, second.key) == (
        "ben",
        "it slipped",
        False,
        None,
    )
    assert ledger.labels.history("/data/a", 3) == [undo, second, first]
    assert [row.episode for row in ledger.labels.history("/data/a", 4)] == [4]
    assert ledger.labels.newest() == undo.id + 2


def test_a_key_makes_one_row_however_often_it_is_sent(ledger):
    first, is_first = add(ledger, 3, True, key="one")
    again, is_again = add(ledger, 9, False, key="one", who="ben")
    assert (is_first, is_again, again) == (True, False, first)
    assert ledger.labels.find("one") == first
    assert ledger.labels.find("two") is None


def test_rows_with_the_same_key_at_the_same_time_are_one(ledger, tmp_path):
    made = []

    def label() -> None:
        with closing(open_ledger(tmp_path)) as own:
            made.append(add(own, 1, True, key="same"))

    threads = [threading.Thread(target=label) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(is_new for _, is_new in made) == [False] * 7 + [True]
    assert len({row.id for row, _ in made}) == 1


def test_rows_that_may_lack_their_line(ledger):
    rows = [add(ledger, number, True)[0] for number in range(3)]
    other, _ = add(ledger, 0, True, dataset="/data/b")
    ledger.labels.mark_written(rows[1])
    assert ledger.labels.unwritten("/data/a") == [rows[0], rows[2]]
    assert ledger.labels.unwritten() == [rows[0], rows[2], other]


@only_sqlite
def test_the_list_of_a_dataset_and_the_unwritten_ones_use_an_index(ledger):
    for query, index in (
        ("SELECT * FROM episode_label WHERE is_written = 0 ORDER BY id", "unwritten_label"),
        ("SELECT * FROM episode_label WHERE dataset = 'a' AND episode = 1", "label_of_episode"),
    ):
        with ledger._engine.connect() as connection:
            plan = connection.execute(text(f"EXPLAIN QUERY PLAN {query}")).fetchall()
        assert index in str(plan)


def test_a_reader_sees_labels_without_writing(ledger, tmp_path):
    row, _ = add(ledger, 3, True)
    ledger.close()
    with closing(read_ledger(tmp_path)) as reader:
        assert reader.labels.history("/data/a", 3) == [row]


def test_edits_of_a_page_newest_first(ledger):
    edits = [
        ledger.sections.add_edit("tasks/push.md", who, before, after)
        for who, before, after in (("anna", "a", "b"), ("ben", "b", "c"), ("anna", "c", "b"))
    ]
    ledger.sections.add_edit("tasks/other.md", "anna", "a", "b")
    assert ledger.sections.edits("tasks/push.md") == edits[::-1]
    assert ledger.sections.edits("tasks/push.md", limit=1) == edits[2:]


def test_the_same_edit_again_is_the_same_row(ledger):
    """A kill came before its file was written."""
    first = ledger.sections.add_edit("tasks/push.md", "anna", "a", "b")
    assert ledger.sections.add_edit("tasks/push.md", "anna", "a", "b") == first
    assert ledger.sections.add_edit("tasks/push.md", "ben", "a", "b") != first
    ledger.sections.drop_edit(first)
    assert [one.who for one in ledger.sections.edits("tasks/push.md")] == ["ben"]
