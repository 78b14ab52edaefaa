"""Programs of these tests are in no list."""

import pytest


@pytest.fixture(autouse=True)
def _any_program(any_program): ...
