"""Rules that several tests use."""

import pytest

from lefleet.constitution import Rules, rules_for
from tests.constitution.cases import config, source


@pytest.fixture
def own(tmp_path) -> Rules:
    """The rules of a run that names nothing but its tasks."""
    return rules_for(source(), config(), tmp_path)
