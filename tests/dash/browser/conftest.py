"""A work folder with real runs, a dashboard over it, and Chromium."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.client.transport.networks import FREE_PORT, Router
from tests.dash.serving import dashboard
from tests.recording.frames import create, frame_of

EVIL = "<img src=x onerror='window.pwned=1'><script>window.pwned=1</script>"
"""Text that must never be more than text, wherever it is stored."""
NIGHT = (
    *("--name=night", "--tasks=[push, door-open]", "--collect.episodes_per_task=[2, 8]"),
    *("--ladder=[{name: small-act, steps: 700}]", "--evaluate.episodes_per_task=8"),
    *("--gate.max_pairs=40", "--approvals.promote=human"),
)
"""Its second cycle is better than its first, and waits for a person."""
BROKEN = (
    *("--name=broken", "--tasks=[door-open]", "--collect.episodes_per_task=[2]"),
    *("--ladder=[{name: wrong, steps: 20, policy: {chunk_size: many}}]", "--max_attempts=1"),
    "--budgets.cycles=1",
)
"""LeRobot refuses its policy."""


PATIENCE_MS = 60_000
"""For whatever a page shows on a busy machine."""
expect.set_options(timeout=PATIENCE_MS)


class Place(NamedTuple):
    """Where the dashboard is, and what is behind it."""

    url: str
    workdir: Path
    datasets: Path
    router: Router


@pytest.fixture(scope="package")
def chromium() -> str:
    """The browser; a failure where continuous integration has none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        reason = "no chromium here: sudo apt-get install chromium fonts-dejavu-core"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return found


@pytest.fixture(scope="package")
def place(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("browser")
    workdir, datasets = folder / "runs", folder / "datasets"
    codes = {"broken": 1, "night": 3}
    for flags in (BROKEN, NIGHT):
        arguments = [sys.executable, "-m", "lefleet", "demo", "--workdir", str(workdir), *flags]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=900)
        name = flags[0].removeprefix("--name=")
        assert done.returncode == codes[name], done.stderr[-2000:]
    _record(datasets / "kitchen")
    router = Router(FREE_PORT)
    options = ("--port", "0", "--connect", router.endpoint, "--datasets", str(datasets))
    try:
        with dashboard(workdir, *options, folder=folder) as (_, url):
            yield Place(url, workdir, datasets, router)
    finally:
        router.close()


def _record(root: Path) -> None:
    """Three short episodes with a camera; the task of the last one is a trap."""
    recorded = create(root, "streaming")
    for episode, task in enumerate(("open the door", "open the door", EVIL)):
        for number in range(12):
            recorded.add_frame({**frame_of(episode, number, "streaming"), "task": task})
        recorded.save_episode()
    recorded.finalize()


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield opened
        opened.close()


class Opener:
    """Opens pages, and remembers what they asked for and complained about."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self.url = url
        self.errors: list[str] = []
        self.outside: list[str] = []

    @contextmanager
    def page(self, path: str, *, dark: bool = False, phone: bool = False) -> Iterator[Page]:
        size = {"width": 360, "height": 780} if phone else {"width": 1280, "height": 900}
        scheme = "dark" if dark else "light"
        context = self._browser.new_context(viewport=size, color_scheme=scheme, has_touch=phone)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("console", lambda said: self._said(said.type, said.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda asked: self._asked(asked.url))
        page.goto(f"{self.url}{path}")
        page.wait_for_selector("h1, section.card")
        try:
            yield page
            assert page.evaluate("window.pwned") is None
        finally:
            context.close()

    def _said(self, kind: str, text: str) -> None:
        # Stored text that looks like a script is stopped by the policy, which the browser reports.
        if kind == "error" and "Content Security Policy" not in text:
            self.errors.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, self.url.replace("http", "ws"), "data:", "blob:")):
            self.outside.append(url)


@pytest.fixture
def opener(browser: Browser, place: Place) -> Iterator[Opener]:
    """No page may ask for anything elsewhere, or have an error."""
    opened = Opener(browser, place.url)
    yield opened
    assert opened.outside == []
    assert opened.errors == []
