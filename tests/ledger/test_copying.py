"""A ledger moves to a server and back, whole or not at all."""

import json
from contextlib import ExitStack, closing

import pytest

from lefleet.cli.ledger import LedgerCopyCommand, copy
from lefleet.errors import BadInput
from lefleet.ledger import copying, open_ledger, read_ledger, schema
from lefleet.ledger.copying import copy_ledger
from tests.ledger.ledgers import REQUEST, everything, execute
from tests.loop.states import decision
from tests.samples import comparison_record, dataset_record, episode


@pytest.fixture
def folder(tmp_path):
    """A work folder whose ledger, in a file, has something in most tables."""
    folder = tmp_path / "runs"
    with closing(open_ledger(folder)) as ledger:
        for run in ("r", "S", "a"):
            ledger.create_run(run, {"name": run, "deep": [1, 2.5, None, "ü"]})
        ledger.commit_stage(ledger.start_attempt("r", 0, "collect", REQUEST), dataset_record())
        lines = [episode(seed=1), episode(seed=1, policy="baseline", success=False)]
        ledger.commit_stage(
            ledger.start_attempt("r", 0, "gate", REQUEST), comparison_record(), lines
        )
        ledger.end_attempt(ledger.start_attempt("r", 1, "train", REQUEST), "failed", "no")
        ledger.record_decision("r", decision(0, "baseline", "c0"))
        asked = {"cycle": 0, "text": "?", "evidence": {}, "timeout_s": 0, "on_timeout": "reject"}
        ledger.approvals.ask("r", "promote", "s", **asked)
        ledger.notifications.add("r", 2, "decision", "text")
        ledger.labels.add("/data", 3, None, is_undo=True, source="page", who="anna", key="k")
        ledger.sections.write("page", {"b": "1", "B": "2"})
        ledger.sections.add_edit("page", "anna", "a", "b")
        rows = [("r", 1.0, "note", "{}")] * 1100
        execute(folder, "INSERT INTO event (run, at, kind, data) VALUES (?, ?, ?, ?)", *rows)
    return folder


def content(folder):
    """All that a ledger tells, as typed values."""
    with closing(read_ledger(folder)) as ledger:
        runs = ledger.runs()
        return (
            runs,
            [ledger.attempts(run.id) for run in runs],
            [ledger.events(run.id, limit=5000) for run in runs],
            ledger.decisions("r"),
            ledger.approvals.all("r"),
            ledger.notifications.all("r"),
            ledger.labels.history("/data", 3),
            ledger.sections.every(),
            ledger.sections.edits("page"),
            ledger.episodes.of_gate("r", 0),
        )


def names(folder):
    return sorted(path.name for path in folder.glob("ledger*"))


def test_a_ledger_moves_to_a_server_and_back_with_every_row(folder, database):
    before = content(folder)
    there = copy_ledger(str(folder), database)
    assert names(folder) == ["ledger.db.copied", "ledger.json"]
    assert content(folder) == before
    assert there.rows["event"] == sum(map(len, before[2]))
    assert (there.rows["run"], there.rows["evaluation_episode"]) == (3, 2)
    with closing(open_ledger(folder)) as ledger:
        ledger.create_run("t", {})
        attempt = ledger.start_attempt("t", 0, "collect", REQUEST)
    assert attempt.id == max(one.id for group in before[1] for one in group) + 1
    changed = content(folder)
    back = copy_ledger(database, str(folder))
    assert names(folder) == ["ledger.db", "ledger.db.copied"]
    assert content(folder) == changed
    assert back.rows == there.rows | {
        "run": 4,
        "stage_attempt": 4,
        "event": there.rows["event"] + 2,
    }
    with closing(open_ledger(folder)) as ledger:
        ledger.add_event("t", "note", {})


def test_the_command_says_what_was_copied(folder, database, capsys):
    assert copy(LedgerCopyCommand(source=str(folder), destination=database)) == 0
    said = capsys.readouterr().out
    assert "Copied and compared" in said
    assert "3 run" in said
    assert "kept as ledger.db.copied" in said
    assert copy(LedgerCopyCommand(source=database, destination=str(folder), json=True)) == 0
    assert json.loads(capsys.readouterr().out)["rows"]["run"] == 3


def test_a_copy_that_was_killed_before_the_change_over_can_be_repeated(
    folder, database, monkeypatch
):
    before = content(folder)
    monkeypatch.setattr(copying, "write_pointer", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        copy_ledger(str(folder), database)
    assert names(folder) == ["ledger.db"]
    monkeypatch.undo()
    copy_ledger(str(folder), database)
    assert content(folder) == before


def test_a_copy_that_fails_halfway_leaves_the_server_empty(folder, database, monkeypatch):
    plain = copying._set_next_id

    def failing(connection, table) -> None:
        plain(connection, table)
        if table is schema.event:
            raise OSError("disk full")

    monkeypatch.setattr(copying, "_set_next_id", failing)
    with pytest.raises(OSError, match="disk full"):
        copy_ledger(str(folder), database)
    monkeypatch.undo()
    assert names(folder) == ["ledger.db"]
    with closing(open_ledger(folder.parent / "other", database)) as other:
        assert other.runs() == []


def test_rows_that_differ_after_the_copy_are_noticed(folder, database, monkeypatch):
    plain = copying._rows

    def changing(connection, table):
        for row in plain(connection, table):
            is_copy = connection.dialect.name == "postgresql" and table is schema.run
            yield (*row[:-1], {}) if is_copy else row

    monkeypatch.setattr(copying, "_rows", changing)
    with pytest.raises(BadInput, match=r"took other rows than .*ledger\.db has, in run"):
        copy_ledger(str(folder), database)
    assert names(folder) == ["ledger.db"]


def test_a_controller_that_starts_before_the_copy_begins_is_noticed(folder, database, monkeypatch):
    copy_ledger(str(folder), database)
    plain = copying.upgrade
    with closing(open_ledger(folder)) as ledger, ExitStack() as held:

        def upgrade(engines) -> None:
            plain(engines)
            held.enter_context(ledger.controllers.hold("r"))

        monkeypatch.setattr(copying, "upgrade", upgrade)
        with pytest.raises(BadInput, match="r has a running controller"):
            copy_ledger(database, str(folder))
    assert "ledger.json" in names(folder), "its ledger is where it was"


def test_what_must_not_be_copied_is_refused_and_stays(folder, database, tmp_path):
    with ExitStack() as held:
        ledger = held.enter_context(closing(open_ledger(folder)))
        held.enter_context(ledger.controllers.hold("r"))
        with pytest.raises(BadInput, match=r"r has a running controller.*lefleet stop r"):
            copy_ledger(str(folder), database)
    with closing(open_ledger(tmp_path / "taken", database)) as other:
        other.create_run("other", {})
    before = everything(tmp_path / "taken")
    with pytest.raises(BadInput, match="is not empty"):
        copy_ledger(str(folder), database)
    assert everything(tmp_path / "taken") == before
    with pytest.raises(BadInput, match="is not the ledger of"):
        copy_ledger(database, str(folder))
    with pytest.raises(BadInput, match="is on a server already"):
        copy_ledger(str(tmp_path / "taken"), database)
    with (
        closing(open_ledger(tmp_path / "taken")) as other,
        other.controllers.hold("other"),
        pytest.raises(BadInput, match="other has a running controller"),
    ):
        copy_ledger(database, str(tmp_path / "taken"))
    for source, destination in (("runs", "others"), (database, database)):
        with pytest.raises(BadInput, match="a work folder and the URL of a database"):
            copy_ledger(source, destination)
    with pytest.raises(BadInput, match="there is no ledger in"):
        copy_ledger(str(tmp_path / "nothing"), database)
    assert names(folder) == ["ledger.db"]
