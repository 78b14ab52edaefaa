"""A work folder with an empty ledger."""

import pytest

from lefleet.ledger import open_ledger


@pytest.fixture
def workdir(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def ledger(workdir):
    opened = open_ledger(workdir)
    yield opened
    opened.close()
