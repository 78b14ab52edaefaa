"""Commands as a user types them, in this process."""

import signal
import sys

import pytest

from lefleet.cli import main


@pytest.fixture
def lefleet(monkeypatch, capsys, tmp_path):
    """Runs the command in tmp_path; returns its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lefleet", *arguments])
        try:
            code = main()
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def default_hangup():
    """Whoever runs the tests may have told them to survive their terminal; children inherit it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
