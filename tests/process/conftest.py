"""Programs of these tests are in no list."""

import pytest

from tests.permissive import VALUE, VARIABLE


@pytest.fixture(autouse=True)
def any_program(monkeypatch):
    monkeypatch.setenv(VARIABLE, VALUE)
