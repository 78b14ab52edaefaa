"""Work folders that queries read and actions change: with a real gate, or with knowledge pages."""

import pytest

from lefleet.knowledge import ingest
from lefleet.ledger import open_ledger
from tests.gates import gate_of_run
from tests.knowledge.played import demo_like


@pytest.fixture
def workdir(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def gate(workdir, comparison):
    """The folder of a run's gate."""
    return gate_of_run(workdir, comparison)


@pytest.fixture
def learned(workdir):
    """The ledger of a run whose knowledge pages are written."""
    opened = open_ledger(workdir)
    demo_like(opened, workdir)
    ingest(opened, workdir, "demo")
    yield opened
    opened.close()
