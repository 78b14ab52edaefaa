"""Faults planted into real processes."""

import os

import pytest


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """Plants a fault into every process that starts from now on, while a file exists."""

    def plant_fault(code: str):
        switch = tmp_path / "faulty"
        switch.touch()
        (tmp_path / "sitecustomize.py").write_text(code.format(switch=str(switch)))
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
        return switch

    return plant_fault
