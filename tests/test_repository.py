"""What no tracked file may say."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# In pieces, so that this file does not say them either.
HOSTS = [
    "\\.".join(parts)
    for parts in (
        ("pypi", "org"),
        ("python" + "hosted", "org"),
        ("npm" + "js", "(org|com)"),
        ("anaconda", "org"),
    )
]
HOMES = ["/" + "root/", "/" + r"home/\w", "/" + r"Users/\w"]
FORBIDDEN = re.compile("|".join([*HOSTS, *HOMES]))


def tracked_texts() -> dict[str, str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    contents = {file: file.read_bytes() for file in files if file.is_file()}
    return {
        str(file.relative_to(ROOT)): data.decode()
        for file, data in contents.items()
        if b"\0" not in data
    }


def test_no_tracked_file_names_a_package_registry_or_a_home_folder():
    texts = tracked_texts()
    assert "pyproject.toml" in texts
    found = {name: match[0] for name, text in texts.items() if (match := FORBIDDEN.search(text))}
    assert found == {}


@pytest.mark.parametrize(
    "text", ["https://files.python" + "hosted.org/x", "/" + "home/ann/data", "/ro" + "ot/.cache"]
)
def test_such_a_name_is_noticed(text):
    assert FORBIDDEN.search(text)
