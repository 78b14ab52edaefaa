"""What pages and API are given: the ledger as it is now, and who asks."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import msgspec
import pytest

from lefleet.actions.people import NotPermitted, system_user
from lefleet.dash.context import Context
from lefleet.errors import BadInput
from lefleet.ledger import open_ledger
from tests.loop.states import config


@pytest.fixture
def context(tmp_path):
    return Context(tmp_path / "runs", lambda: pytest.fail("nobody asked for the fleet"))


def create_run(workdir, name) -> None:
    ledger = open_ledger(workdir)
    ledger.create_run(name, msgspec.to_builtins(config(name=name)))
    ledger.close()


def names(context) -> list[str]:
    return [row.id for row in context.ledger().runs()]


def test_without_a_ledger_there_are_no_runs_and_none_is_made(context, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: names(context), range(20))) == [[]] * 20
    assert [*tmp_path.iterdir()] == []


def test_a_ledger_is_read_as_soon_as_it_appears_and_by_any_thread(context):
    assert names(context) == []
    create_run(context.workdir, "a")
    assert names(context) == ["a"]
    create_run(context.workdir, "b")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: names(context), range(20))) == [["a", "b"]] * 20


def test_a_ledger_that_was_replaced_is_opened_again(context, tmp_path):
    create_run(context.workdir, "a")
    assert names(context) == ["a"]
    create_run(tmp_path / "other", "b")
    (tmp_path / "other" / "ledger.db").replace(context.workdir / "ledger.db")
    assert names(context) == ["b"]


def test_a_ledger_that_cannot_be_read_is_an_error_until_it_can(context):
    context.workdir.mkdir()
    (context.workdir / "ledger.db").write_text("no ledger " * 1000)
    with pytest.raises(BadInput, match="is not a ledger"):
        context.ledger()
    (context.workdir / "ledger.db").unlink()
    assert names(context) == []


def test_a_person_is_known_until_they_are_logged_out(context):
    is_valid = threading.Event()
    is_valid.set()
    scope = {"lefleet.person": system_user(), "lefleet.is_valid": is_valid.is_set}
    request = SimpleNamespace(scope=scope)
    assert context.person(request) == system_user()
    is_valid.clear()
    with pytest.raises(NotPermitted, match="no longer logged in"):
        context.person(request)
