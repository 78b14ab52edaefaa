"""A ledger is created, brought up to date, or refused."""

import json
import sqlite3
import subprocess
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from lefleet.errors import BadInput, LeFleetError
from lefleet.ledger import open_ledger, schema
from tests.ledger.ledgers import execute, old_ledger


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
    assert execute(tmp_path / "ledger.db", "PRAGMA integrity_check") == [("ok",)]


def test_migrations_lead_to_the_schema(tmp_path):
    open_ledger(tmp_path).close()
    with create_engine(f"sqlite:///{tmp_path / 'ledger.db'}").connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


@pytest.mark.parametrize("revision", ["0001"])
def test_an_older_ledger_opens_and_keeps_its_rows(tmp_path, revision):
    old_ledger(tmp_path, revision)
    ledger = open_ledger(tmp_path)
    (row,) = ledger.runs()
    assert (row.id, row.state, row.config) == ("old", "stopped", {"name": "old"})
    assert (row.reason, row.stop_requested, row.created_at, row.resumed_at) == ("", False, 5.0, 6.0)
    assert ledger.create_run("new", {})


def test_gates_of_a_fixed_size_become_gates_of_today(tmp_path):
    path = old_ledger(tmp_path, "0001")
    config = {"name": "old", "tasks": ["push", "reach"], "gate": {"pairs_per_task": 15}}
    execute(path, f"UPDATE run SET config = '{json.dumps(config)}'")
    gate = {"verdict": "better", "pairs": 30, "wins": 9, "losses": 0, "p_value": 0.01}
    body = {"cycle": 1, "decision": "promote", "why": "", "rung": 0, "candidate": "c"}
    body |= {"blessed": "c", "gate": gate | {"alpha": 0.05}}
    execute(
        path,
        "INSERT INTO decision (run, cycle, decision, body, at) "
        f"VALUES ('old', 1, 'promote', '{json.dumps(body)}', 1.0)",
    )
    ledger = open_ledger(tmp_path)
    assert ledger.run("old").config["gate"] == {"max_pairs": 30}
    (decision,) = ledger.decisions("old")
    assert (decision.gate.ended, decision.gate.difference) == ("better", 0.3)


def test_a_ledger_of_a_newer_lefleet_is_refused(tmp_path):
    open_ledger(tmp_path).close()
    path = tmp_path / "ledger.db"
    execute(path, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(BadInput, match="newer") as caught:
        open_ledger(tmp_path)
    assert str(path) in caught.value.problem
    assert "9999" in caught.value.problem


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "ledger.db").write_text("my shopping list, rather long for a header\n" * 50)
    with pytest.raises(BadInput, match="is not a ledger") as caught:
        open_ledger(tmp_path)
    assert str(tmp_path / "ledger.db") in caught.value.problem
    assert (tmp_path / "ledger.db").read_text().startswith("my shopping list")


def test_a_ledger_that_cannot_be_opened_is_a_clear_error(tmp_path):
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(LeFleetError, match="cannot be used") as caught:
        open_ledger(tmp_path)
    assert caught.value.remedy


def test_a_workdir_that_is_a_file_is_a_clear_error(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(LeFleetError, match="cannot be used"):
        open_ledger(tmp_path / "runs")


def test_a_reader_does_not_wait_for_a_writer(tmp_path):
    ledger = open_ledger(tmp_path)
    ledger.create_run("r", {})
    writer = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE run SET state = 'failed'")
    assert ledger.run("r").state == "running"
    assert [event.kind for event in ledger.events("r")] == ["run_created"]
    assert (ledger.attempts("r"), ledger.decisions("r")) == ([], [])
    writer.execute("COMMIT")
    writer.close()
    assert ledger.run("r").state == "failed"


def test_an_older_ledger_knows_which_attempts_came_before_the_last_resume(tmp_path):
    path = old_ledger(tmp_path, "0001")
    execute(
        path,
        "INSERT INTO stage_attempt (run, cycle, stage, attempt, state, request, started_at) "
        "VALUES ('old', 0, 'collect', ?, 'failed', '{}', ?)",
        (1, 5.5),
        (2, 6.5),
    )
    assert open_ledger(tmp_path).run("old").resumed_after == 1
