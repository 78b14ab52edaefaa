"""Which captures `lefleet replay` computes again, and what it imports for that."""

import sys

import pytest

from lefleet.policy.settings import ModelSettings
from lefleet.server.capture import CapturedModel, CaptureRing
from lefleet.server.manifest import CaptureSettings
from tests.server.samples import CAPTURED


@pytest.fixture
def naming(tmp_path, monkeypatch):
    """A ring whose captures name a package, and the file that exists once that was imported."""
    trace, name = tmp_path / "imported", "lefleet_test_captured"
    (tmp_path / name).mkdir()
    code = f"import pathlib\npathlib.Path({str(trace)!r}).touch()\n"
    (tmp_path / name / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    model = ModelSettings(repo_or_path="\x1b[2Jnone", discover_packages=(name,))
    with CaptureRing(
        CaptureSettings(dir=str(tmp_path / "ring")), CapturedModel(model=model)
    ) as ring:
        ring.record(CAPTURED)
    return trace


def test_packages_that_captures_name_are_not_imported_unless_they_are_allowed(naming, lefleet):
    code, _, err = lefleet("replay", "ring")
    assert (code, naming.exists()) == (2, False)
    assert (
        "its captures name packages to import: lefleet_test_captured. Give --allow-packages" in err
    )
    code, _, err = lefleet("replay", "ring", "--allow-packages")
    assert (code, naming.exists()) == (2, True)
    assert err.startswith("lefleet: model.repo_or_path: ?[2Jnone "), "no control of the terminal"


def test_packages_of_captures_can_be_replaced(naming, lefleet):
    code, _, err = lefleet("replay", "ring", "--model.discover_packages=[]")
    assert (code, naming.exists()) == (2, False)
    assert err.startswith("lefleet: model.repo_or_path: ")


@pytest.mark.parametrize("content", [b"", b"hello", bytes(1000)])
def test_a_file_that_is_no_capture_is_a_sentence(tmp_path, lefleet, content):
    (tmp_path / "0000000000.capture").write_bytes(content)
    code, out, err = lefleet("replay", ".")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("lefleet: 0000000000.capture: it is not a capture: ")
