"""A ledger with one run."""

import pytest

from lefleet.ledger import open_ledger


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(tmp_path)
    opened.create_run("r", {"name": "r"})
    yield opened
    opened.close()
