"""Faults planted into real processes."""

import os

import pytest

PLANT = """
from lefleet.process import fork

CODE = {code!r}
run = fork._run


def run_with_fault(name):
    exec(CODE, {{}})
    return run(name)


exec(CODE, {{}})
fork._run = run_with_fault
"""


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """Plants a fault into every program that starts from now on, forked or not, while a file
    exists."""

    def plant_fault(code: str):
        switch = tmp_path / "faulty"
        switch.touch()
        (tmp_path / "sitecustomize.py").write_text(
            PLANT.format(code=code.format(switch=str(switch)))
        )
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
        return switch

    return plant_fault
