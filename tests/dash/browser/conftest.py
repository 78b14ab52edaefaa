"""A work folder with real runs, a dashboard over it, and Chromium."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.client.transport.networks import FREE_PORT, Router
from tests.dash.browser.runs import fill
from tests.dash.serving import dashboard
from tests.gates import Stages

PATIENCE_MS = 60_000
"""For whatever a page shows on a busy machine."""
expect.set_options(timeout=PATIENCE_MS)


class Place(NamedTuple):
    """Where the dashboard is, and what is behind it."""

    url: str
    workdir: Path
    datasets: Path
    router: Router


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser; a failure where continuous integration has none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        reason = "no chromium here: sudo apt-get install chromium fonts-dejavu-core"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return found


@pytest.fixture(scope="session")
def night(
    chromium: str, filled_once: Callable, stages_of_two_cycles: Stages, undecided: Path
) -> Path:
    """Two folders, each with runs and datasets: `here` is where the runs were made, and only one
    file of tests may change them; `copy` is for those who look."""
    made = stages_of_two_cycles._replace(comparison=undecided)
    return filled_once("night", lambda folder: fill(folder, made))


@contextmanager
def served(folder: Path, started_in: Path) -> Iterator[Place]:
    """A dashboard over the runs and datasets of a folder."""
    router = Router(FREE_PORT)
    options = ("--port", "0", "--connect", router.endpoint, "--datasets", str(folder / "datasets"))
    try:
        with dashboard(folder / "runs", *options, folder=started_in) as (_, url):
            yield Place(url, folder / "runs", folder / "datasets", router)
    finally:
        router.close()


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
