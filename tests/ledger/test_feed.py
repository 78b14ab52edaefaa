"""Events newest first: filtered, paged, and found by indexes alone."""

import random
from contextlib import closing
from itertools import product

import pytest

from lefleet.ledger import open_ledger
from tests.ledger.ledgers import execute, only_sqlite

KINDS = ("stage_started", "stage_committed", "decision", "approved")


@pytest.fixture
def ledger(workdir):
    """Two runs whose events are mixed."""
    chance = random.Random(5)
    with closing(open_ledger(workdir)) as opened:
        for run in ("a", "b"):
            opened.create_run(run, {})
        for number in range(60):
            opened.add_event(chance.choice("ab"), chance.choice(KINDS), {"number": number})
        yield opened


def test_the_newest_events_of_some_kinds_come_first(ledger):
    events = ledger.events("a")
    choices = [(), ("decision",), ("decision", "approved"), KINDS, ("none",)]
    for kinds, before, limit in product(choices, [None, 30, 1], [1, 5, 100]):
        every = [one for one in events if not kinds or one.kind in kinds]
        older = [one for one in every if before is None or one.id < before]
        found = ledger.feed.recent("a", before=before, kinds=kinds, limit=limit)
        assert found == older[::-1][:limit], (kinds, before, limit)


@only_sqlite
def test_no_question_reads_all_events_of_a_run(ledger, tmp_path):
    """As SQLite plans it: a search in an index, which is in the right order already."""
    for where, index in (
        ("run = 'a'", "event_of_run (run=?)"),
        ("run = 'a' AND id < 30", "event_of_run (run=? AND id<?)"),
        (
            "run = 'a' AND kind = 'decision' AND id < 30",
            "event_of_kind (run=? AND kind=? AND id<?)",
        ),
    ):
        query = f"SELECT * FROM event WHERE {where} ORDER BY id DESC LIMIT 5"
        plan = execute(tmp_path, f"EXPLAIN QUERY PLAN {query}")
        assert [row[3] for row in plan] == [f"SEARCH event USING INDEX {index}"]
