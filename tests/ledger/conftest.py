"""A ledger with one run, in a file and on a server."""

import pytest

from lefleet.ledger import open_ledger


@pytest.fixture
def ledger(workdir):
    opened = open_ledger(workdir)
    opened.create_run("r", {"name": "r"})
    yield opened
    opened.close()
