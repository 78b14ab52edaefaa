"""A ledger is created, migrated, read without a trace, or refused."""

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from lefleet.errors import BadInput, LeFleetError
from lefleet.ledger import connect, engines, open_ledger, read_ledger, schema
from tests.ledger.ledgers import execute


def test_a_new_ledger_has_no_runs(tmp_path):
    assert open_ledger(tmp_path / "a" / "b").runs() == []


def test_a_ledger_opened_again_keeps_its_runs(tmp_path):
    open_ledger(tmp_path).create_run("r", {})
    assert [row.id for row in open_ledger(tmp_path).runs()] == ["r"]


def test_several_processes_that_create_it_at_once_make_one_good_ledger(tmp_path):
    code = (
        "import sys; from pathlib import Path; from lefleet.ledger import open_ledger; "
        "sys.stdin.read(); "
        "open_ledger(Path(sys.argv[1])).create_run(sys.argv[2], {})"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    children = [
        subprocess.Popen([*argv, name], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in ("a", "b", "c")
    ]
    for child in children:
        child.stdin.close()
    assert [(child.wait(), child.stderr.read()) for child in children] == [(0, b"")] * 3
    for child in children:
        child.stderr.close()
    assert sorted(row.id for row in open_ledger(tmp_path).runs()) == ["a", "b", "c"]
    assert execute(tmp_path, "PRAGMA integrity_check") == [("ok",)]


def test_migrations_lead_to_the_schema(tmp_path):
    open_ledger(tmp_path).close()
    with create_engine(f"sqlite:///{tmp_path / 'ledger.db'}").connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


def test_a_ledger_of_a_newer_lefleet_is_refused(tmp_path):
    open_ledger(tmp_path).close()
    path = tmp_path / "ledger.db"
    execute(tmp_path, "UPDATE alembic_version SET version_num = '9999'")
    for opening in (open_ledger, read_ledger):
        with pytest.raises(BadInput, match="newer") as caught:
            opening(tmp_path)
        assert str(path) in caught.value.problem
        assert "9999" in caught.value.problem


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "ledger.db").write_text("my shopping list, rather long for a header\n" * 50)
    for opening in (open_ledger, read_ledger):
        with pytest.raises(BadInput, match="is not a ledger") as caught:
            opening(tmp_path)
        assert str(tmp_path / "ledger.db") in caught.value.problem
    assert (tmp_path / "ledger.db").read_text().startswith("my shopping list")


def test_a_ledger_that_cannot_be_opened_is_a_clear_error(tmp_path):
    (tmp_path / "ledger.db").mkdir()
    for opening in (open_ledger, read_ledger):
        with pytest.raises(LeFleetError, match="cannot be used") as caught:
            opening(tmp_path)
        assert caught.value.remedy


def test_a_workdir_that_is_a_file_is_a_clear_error(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(LeFleetError, match="is a file, not a folder"):
        open_ledger(tmp_path / "runs")


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_missing_ledger_is_read_as_an_empty_one_and_not_created(tmp_path):
    ledger = read_ledger(tmp_path / "runs")
    assert (ledger.runs(), ledger.run("r")) == ([], None)
    assert files(tmp_path) == []


def test_a_ledger_that_a_kill_left_without_tables_is_read_as_an_empty_one(tmp_path):
    (tmp_path / "ledger.db").touch()
    assert read_ledger(tmp_path).runs() == []


def test_reading_creates_no_file_and_sees_every_run(tmp_path):
    writer = open_ledger(tmp_path)
    writer.create_run("r", {})
    writer.close()
    before = files(tmp_path)
    reader = read_ledger(tmp_path)
    assert [row.id for row in reader.runs()] == ["r"]
    assert files(tmp_path) == before == [".ledger.lock", "ledger.db"]
    writer = open_ledger(tmp_path)
    writer.create_run("s", {})
    assert [row.id for row in reader.runs()] == ["r", "s"]
    writer.close()


def test_a_closed_ledger_cannot_be_opened_to_write_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "LOCK_WAIT_S", 0.05)
    open_ledger(tmp_path).close()
    reader = read_ledger(tmp_path)
    with reader._reads.connect(), pytest.raises(LeFleetError, match="is locked"):
        open_ledger(tmp_path)
    open_ledger(tmp_path).close()


def test_a_ledger_that_is_written_can_be_opened_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "LOCK_WAIT_S", 0.05)
    writer = open_ledger(tmp_path)
    with read_ledger(tmp_path)._reads.connect():
        open_ledger(tmp_path).close()
    writer.close()


def test_a_copy_of_the_file_alone_is_read(tmp_path):
    writer = open_ledger(tmp_path / "runs")
    writer.create_run("r", {})
    writer.close()
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "runs" / "ledger.db", tmp_path / "copy")
    assert [row.id for row in read_ledger(tmp_path / "copy").runs()] == ["r"]
    assert files(tmp_path / "copy") == ["ledger.db"]


def test_a_reader_cannot_write(tmp_path):
    writer = open_ledger(tmp_path)
    writer.create_run("r", {})
    with pytest.raises(LeFleetError, match="readonly"):
        read_ledger(tmp_path).set_run_state("r", "failed")
    assert writer.run("r").state == "running"
    writer.close()


@pytest.mark.parametrize("options", [{"create": False}, {"create": False, "migrate": False}])
def test_a_ledger_that_may_not_be_created_is_missed_in_words(tmp_path, options):
    with pytest.raises(BadInput, match=r"no ledger in .*--workdir"):
        open_ledger(tmp_path / "runs", **options)
    assert files(tmp_path) == []


@pytest.fixture
def older(tmp_path):
    """A work folder whose ledger has the first schema, with one run."""
    workdir = tmp_path / "runs"
    workdir.mkdir()
    config = Config()
    config.set_main_option("script_location", str(connect._MIGRATIONS))
    with create_engine(f"sqlite:///{workdir / 'ledger.db'}").begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    execute(
        workdir,
        "INSERT INTO run (id, number, state, config, created_at, resumed_at) "
        "VALUES ('r', 1, 'running', '{\"name\": \"r\"}', 1.0, 1.0)",
    )
    return workdir


def test_an_older_ledger_is_migrated_and_keeps_its_rows(older):
    ledger = open_ledger(older, create=False)
    (row,) = ledger.runs()
    assert (row.id, row.config, row.budgets, row.origin) == ("r", {"name": "r"}, None, None)
    ledger.close()


@pytest.mark.parametrize("revision", ["0002", "0003"])
def test_a_ledger_of_any_older_lefleet_gets_labels_and_edits(older, revision):
    config = Config()
    config.set_main_option("script_location", str(connect._MIGRATIONS))
    with create_engine(f"sqlite:///{older / 'ledger.db'}").begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    ledger = open_ledger(older, create=False)
    _, is_new = ledger.labels.add("/data", 0, True, source="page", who="anna", key="k")
    ledger.sections.add_edit("tasks/push.md", "anna", "a", "b")
    assert (is_new, [one.id for one in ledger.runs()]) == (True, ["r"])
    ledger.close()
    with create_engine(f"sqlite:///{older / 'ledger.db'}").connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


def test_an_older_ledger_is_not_migrated_by_those_who_only_look_or_stop(older):
    for opening in (read_ledger, lambda workdir: open_ledger(workdir, migrate=False)):
        with pytest.raises(BadInput, match=r"older lefleet \(schema 0001\).*lefleet resume"):
            opening(older)
    assert execute(older, "SELECT * FROM alembic_version") == [("0001",)]


def test_an_older_ledger_is_not_migrated_under_a_live_controller(older):
    (older / "r").mkdir()
    controller = os.open(older / "r" / ".controller.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(controller, fcntl.LOCK_EX)
    with pytest.raises(BadInput, match=r"the controller of r is using it.*lefleet stop r"):
        open_ledger(older)
    assert execute(older, "SELECT * FROM alembic_version") == [("0001",)]
    os.close(controller)
    open_ledger(older).close()
    assert execute(older, "SELECT * FROM alembic_version") == [(schema.REVISION,)]


def test_the_revision_that_readers_compare_with_is_that_of_the_newest_migration():
    config = Config()
    config.set_main_option("script_location", str(connect._MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.REVISION


def test_waiting_for_another_writer_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "LOCK_WAIT_S", 0.05)
    ledger = open_ledger(tmp_path)
    ledger.create_run("r", {})
    writer = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(LeFleetError, match="is locked: another process"):
        ledger.request_stop("r")
    writer.close()
    ledger.request_stop("r")
    ledger.close()


def test_waiting_for_another_process_that_creates_it_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "LOCK_WAIT_S", 0.05)
    with (tmp_path / ".ledger.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LeFleetError, match="is locked: another process"):
            open_ledger(tmp_path)


def test_a_reader_does_not_wait_for_a_writer(tmp_path):
    open_ledger(tmp_path).create_run("r", {})
    ledger = read_ledger(tmp_path)
    writer = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE run SET state = 'failed'")
    assert ledger.run("r").state == "running"
    assert [event.kind for event in ledger.events("r")] == ["run_created"]
    assert (ledger.attempts("r"), ledger.decisions("r")) == ([], [])
    writer.execute("COMMIT")
    writer.close()
    assert ledger.run("r").state == "failed"
