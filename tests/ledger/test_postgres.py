"""What a ledger on a server has of its own: an address, errors in words, turns of writers."""

import subprocess
import sys
import threading
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from lefleet.errors import BadInput, LedgerUnavailable, LeFleetError
from lefleet.ledger import address, engines, open_ledger, postgres, read_ledger, rows, schema
from lefleet.ledger.address import has_ledger, parse_url, read_pointer
from tests.ledger.ledgers import REQUEST, execute
from tests.postgres import GUARDED, PASSWORD

CREATE = """
import sys
from pathlib import Path
from lefleet.ledger import open_ledger
sys.stdin.read()
open_ledger(Path(sys.argv[1]), sys.argv[2]).create_run(sys.argv[3], {})
"""


@pytest.fixture
def ledger(tmp_path, database):
    with closing(open_ledger(tmp_path, database)) as opened:
        opened.create_run("r", {"name": "r"})
        yield opened


def files(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# Address


def test_every_command_finds_it_by_the_work_folder(ledger, tmp_path, database):
    assert read_pointer(tmp_path).url == database
    assert has_ledger(tmp_path)
    for opening in (open_ledger, read_ledger, lambda folder: open_ledger(folder, database)):
        with closing(opening(tmp_path)) as opened:
            assert [row.id for row in opened.runs()] == ["r"]
    assert files(tmp_path) == [".ledger.lock", "ledger.json"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql+psycopg://me:secret@db/x", "a password in the URL would be stored"),
        ("postgresql://me@db/x?password=secret", "a password in the URL would be stored"),
        ("mysql://me@db/x", "it names no Postgres database"),
        ("postgresql+asyncpg://me@db/x", "it names no Postgres database"),
        ("postgresql://me@db", "it names no Postgres database"),
        ("postgresql://me@db:port/x", "it names no Postgres database"),
        ("runs/ledger.db", "it names no Postgres database"),
    ],
)
def test_what_is_no_url_of_a_database_or_has_a_password_is_refused(tmp_path, url, problem):
    with pytest.raises(BadInput, match=f"^ledger: {problem}") as caught:
        open_ledger(tmp_path / "runs", url)
    assert caught.value.remedy
    assert "secret" not in str(caught.value)
    assert files(tmp_path) == []


def test_spellings_of_a_url_are_one():
    assert parse_url("postgres://me@db/x") == parse_url("postgresql+psycopg://me@db/x")


def test_a_work_folder_has_one_ledger(ledger, tmp_path, postgres_server):
    other = postgres_server.create()
    with pytest.raises(BadInput, match=r"is postgresql:.*, not postgresql:.*lefleet ledger copy"):
        open_ledger(tmp_path, other)
    open_ledger(tmp_path / "file").close()
    with pytest.raises(BadInput, match=r"file/ledger\.db, not .*lefleet ledger copy"):
        open_ledger(tmp_path / "file", other)
    assert files(tmp_path / "file") == [".ledger.lock", "ledger.db"]
    postgres_server.drop(other)


def test_a_database_has_one_work_folder(ledger, tmp_path, database, postgres_server):
    with pytest.raises(BadInput, match=r"the ledger of another work folder .*search_path"):
        open_ledger(tmp_path / "second", database)
    assert files(tmp_path / "second") == []
    execute(tmp_path, "CREATE SCHEMA second")
    schema_url = f"{database}&options=-csearch_path%3Dsecond"
    with closing(open_ledger(tmp_path / "second", schema_url)) as second:
        assert second.runs() == []
        second.create_run("s", {})
    with closing(read_ledger(tmp_path / "second")) as second:
        assert [row.id for row in second.runs()] == ["s"]
    assert [row.id for row in ledger.runs()] == ["r"]


def test_a_folder_that_was_killed_before_the_server_knew_it_is_opened_again(tmp_path, database):
    with closing(open_ledger(tmp_path, database)):
        execute(tmp_path, "DELETE FROM work_folder")
    with closing(open_ledger(tmp_path)) as opened:
        assert opened.create_run("r", {})
    with closing(read_ledger(tmp_path)) as opened:
        assert [row.id for row in opened.runs()] == ["r"]


def test_a_database_that_was_replaced_is_refused(ledger, tmp_path):
    execute(tmp_path, "UPDATE work_folder SET id = 'another'")
    for opening in (open_ledger, read_ledger):
        with pytest.raises(BadInput, match="another work folder"):
            opening(tmp_path)


@pytest.mark.parametrize("content", ["{}", "no json", '{"url": "sqlite:///x", "id": "1"}'])
def test_a_pointer_that_makes_no_sense_is_named(tmp_path, content):
    (tmp_path / "ledger.json").write_text(content)
    with pytest.raises(BadInput, match=r"ledger\.json"):
        read_ledger(tmp_path)


def test_several_processes_that_create_it_at_once_make_one_good_ledger(tmp_path, postgres_server):
    postgres_server.execute("CREATE DATABASE created_at_once")
    url = postgres_server.url("created_at_once")
    children = [
        subprocess.Popen([sys.executable, "-c", CREATE, tmp_path, url, name], stdin=subprocess.PIPE)
        for name in ("a", "b", "c")
    ]
    for child in children:
        child.stdin.close()
    assert [child.wait() for child in children] == [0] * 3
    with closing(open_ledger(tmp_path)) as opened:
        assert sorted(row.id for row in opened.runs()) == ["a", "b", "c"]
        with opened._reads.connect() as connection:
            migrated = MigrationContext.configure(connection)
            assert compare_metadata(migrated, schema.metadata) == []
    postgres_server.drop(url)


# Errors


def test_a_server_that_refuses_is_quoted_with_the_remedy(tmp_path, postgres_server, monkeypatch):
    for url, said in (
        (postgres_server.url("nowhere"), r'database "nowhere" does not exist\. Create it'),
        (postgres_server.url("postgres", "nobody"), r'role "nobody" does not exist\. Create'),
        (postgres_server.url("postgres", GUARDED), r"no password supplied\. .*PGPASSWORD"),
    ):
        with pytest.raises(BadInput, match=said):
            open_ledger(tmp_path, url)
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(BadInput, match=r"password authentication failed.*PGPASSWORD") as caught:
        open_ledger(tmp_path, postgres_server.url("postgres", GUARDED))
    assert "wrong" not in str(caught.value)
    assert files(tmp_path) == []
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with pytest.raises(BadInput, match=r"may not do that: permission denied.*Grant it"):
        open_ledger(tmp_path, postgres_server.url("postgres", GUARDED))
    assert files(tmp_path) == []


def test_a_server_that_is_not_there_is_named_at_once(tmp_path):
    url = f"postgresql+psycopg://me@/x?host={tmp_path}"
    with pytest.raises(LedgerUnavailable, match=r"cannot be reached: .*Start the server") as caught:
        open_ledger(tmp_path, url)
    assert caught.value.exit_code == 1
    assert files(tmp_path) == []


def test_a_missing_driver_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(address, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"psycopg, which is not installed.*lefleet\[postgres\]"):
        open_ledger(tmp_path, "postgresql://me@db/x")


def test_a_reader_cannot_write(ledger, tmp_path):
    with (
        closing(read_ledger(tmp_path)) as reader,
        pytest.raises(LeFleetError, match="readonly"),
    ):
        reader.set_run_state("r", "failed")
    assert ledger.run("r").state == "running"


def test_a_text_with_nul_is_stored(ledger):
    ledger.end_attempt(ledger.start_attempt("r", 0, "train", REQUEST), "failed", "a\0b")
    assert ledger.attempts("r")[0].error == "a�b"
    assert ledger.events("r")[-1].data["error"] == "a\0b"


def write_after(ledger, happens) -> None:
    """Write an event in a transaction in the middle of which something happens."""
    with ledger._engine.begin() as connection:
        rows.insert_event(connection, "r", "lost", {})
        happens(connection.execute(text("SELECT pg_backend_pid()")).scalar())
        rows.insert_event(connection, "r", "lost", {})


# Turns


def test_ids_of_events_grow_as_they_become_visible(ledger, tmp_path, monkeypatch):
    """A writer that commits late keeps others from writing, not from reading."""
    with closing(open_ledger(tmp_path)) as other:
        done = threading.Event()

        def write() -> None:
            other.add_event("r", "second", {})
            done.set()

        with ledger._engine.begin() as connection:
            rows.insert_event(connection, "r", "first", {})
            thread = threading.Thread(target=write)
            thread.start()
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while execute(tmp_path, waiting) != [(1,)]:
                pass
            assert [one.kind for one in ledger.events("r")] == ["run_created"]
            assert not done.is_set()
        thread.join()
    assert [one.kind for one in ledger.events("r")] == ["run_created", "first", "second"]


def test_waiting_for_another_writer_has_a_limit(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "LOCK_WAIT_S", 0.05)
    with (
        closing(open_ledger(tmp_path)) as other,
        ledger._engine.begin(),
        pytest.raises(LeFleetError, match="is locked: another process"),
    ):
        other.request_stop("r")
    assert not ledger.run("r").stop_requested


def test_a_process_that_sleeps_in_a_transaction_is_rolled_back(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(postgres, "_IDLE_S", 0.2)
    with closing(open_ledger(tmp_path)) as sleeper:
        with pytest.raises(LedgerUnavailable, match="went away"):
            write_after(sleeper, lambda _: ledger.add_event("r", "kept", {}))
        sleeper.add_event("r", "later", {})
    assert [one.kind for one in ledger.events("r")] == ["run_created", "kept", "later"]


# Connections


def test_a_connection_that_the_server_ended_is_made_anew(ledger, tmp_path):
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name='lefleet'"
    with closing(read_ledger(tmp_path)) as reader:
        for number in range(2):
            assert len(reader.events("r")) == 1 + number
            execute(tmp_path, f"{end} AND datname = current_database()")
            ledger.add_event("r", "note", {"number": number})
        assert len(reader.events("r")) == 3


def test_what_is_lost_in_a_transaction_is_an_error_and_leaves_nothing(ledger, tmp_path):
    with pytest.raises(LedgerUnavailable, match="went away"):
        write_after(ledger, lambda pid: execute(tmp_path, f"SELECT pg_terminate_backend({pid})"))
    assert [one.kind for one in ledger.events("r")] == ["run_created"]
