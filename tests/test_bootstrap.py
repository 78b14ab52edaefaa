"""What a person sees while .venv is made, with stand-ins for uv and its surroundings."""

import shutil
import subprocess

import pytest

LOCK = "one==1.0 \\\n    --hash=x\ntwo==2.0 \\\n    --hash=y\n"
ENVIRONMENT = "mkdir -p .venv/bin; ln -sf $(command -v true) .venv/bin/python"


@pytest.fixture
def bootstrap(tmp_path, pytestconfig, monkeypatch):
    """Runs the script in a folder of its own; `uv` is the shell text that stands for uv."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "programs").mkdir()
    (tmp_path / "requirements.lock").write_text(LOCK)
    shutil.copy(pytestconfig.rootpath / "scripts" / "bootstrap", tmp_path / "scripts")
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:/usr/bin:/bin")

    def program(path: str, text: str) -> None:
        (tmp_path / path).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / path).chmod(0o755)

    def run(uv: str, **programs: str) -> tuple[int, str]:
        program("scripts/uv", uv)
        for name, text in programs.items():
            program(f"programs/{name}", text)
        with (tmp_path / "output").open("wb") as output:
            done = subprocess.run(
                ["sh", "scripts/bootstrap"],
                cwd=tmp_path,
                stdout=output,
                stderr=output,
                check=False,
                timeout=60,
            )
        return done.returncode, (tmp_path / "output").read_text()

    return run


def test_without_a_terminal_lines_say_how_far_it_is(bootstrap):
    uv = f"""
    case "$1 $2" in
        "cache dir") echo .; exit;;
        "venv "*) {ENVIRONMENT}; exit;;
        "pip sync") mkdir -p .venv/lib/python3.12/site-packages/one.dist-info
            until grep -q "1 of 2 packages in .venv" output; do :; done;;
    esac"""
    code, output = bootstrap(uv, sleep="exec /bin/sleep 0.1")
    assert code == 0
    assert " MB fetched, 1 of 2 packages in .venv\n" in output
    assert output.endswith("Ready.\n")


def test_extras_are_added_and_kept_until_they_are_dropped(bootstrap, tmp_path, monkeypatch):
    (tmp_path / "locks").mkdir()
    for name in ("arm", "hand"):
        (tmp_path / "locks" / f"{name}.lock").write_text("three==3.0 \\\n    --hash=z\n")
    uv = f'case "$1" in venv) {ENVIRONMENT};; *) echo "$@";; esac'
    for extras, locks in (
        ("arm", " locks/arm.lock"),
        ("", " locks/arm.lock"),
        ("hand", " locks/arm.lock locks/hand.lock"),
        ("none", ""),
        ("", ""),
    ):
        monkeypatch.setenv("EXTRAS", extras)
        code, output = bootstrap(uv)
        assert code == 0, output
        assert f"requirements.lock{locks}\n" in output
        assert f"Installing {3 if locks else 2} packages" in output


def test_an_extra_that_is_not_offered_is_refused_with_those_that_are(
    bootstrap, tmp_path, monkeypatch
):
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "arm.lock").write_text("three==3.0\n")
    monkeypatch.setenv("EXTRAS", "leg")
    code, output = bootstrap("echo used")
    assert code == 2
    assert output == "There is no extra called leg. There are: arm \n"


def test_a_failed_installation_says_what_it_needs(bootstrap):
    code, output = bootstrap(
        f'case "$1" in venv) {ENVIRONMENT};; *) echo no route >&2; exit 2;; esac'
    )
    assert code == 1
    assert "no route\nThe installation failed: see above." in output
    assert "Run this again" in output


def test_a_disk_that_is_too_full_is_named_before_anything_is_fetched(bootstrap):
    code, output = bootstrap("echo used", df="echo head; echo disk 9 9 2500000 9% /")
    assert code == 1
    assert output.startswith("Only 2 GB are free in ")
    assert "used" not in output
