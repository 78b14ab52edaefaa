"""Does the dashboard stay quick and small with a hundred runs and a million events?"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from subprocess import PIPE
from typing import Any, NamedTuple

import httpx
from playwright.sync_api import Browser, sync_playwright

from benchmarks.many_runs import ManyRuns, make, name_of
from benchmarks.report import Section, table
from benchmarks.serving.targets import Target, target_table
from benchmarks.workshop import ANY_PROGRAM, REPOSITORY, Workshop, python, say
from lefleet.constitution import installed
from lefleet.process import launch, stop

MOST_RATIO = 2.0
OPEN_PAGES = 20
MOST_PER_PAGE_MB = 5.0
"""Memory of the server for an open page."""
MOST_GROWTH_MB = 20.0
"""Between the second and the last time that as many pages are open."""
RUN = f"/runs/{name_of(0)}"
PAGES = {
    "first page": ("/", 20, "20 runs of 3 cycles, 2 questions"),
    "page of a run": (RUN, 28, "3 cycles, 3 tasks, 25 events, charts"),
}
"""Address, rows of all tables when everything is there, and what that is."""
CALLS = {
    "/runs?limit=20": "20 runs",
    RUN: "a run of 3 cycles",
    f"{RUN}/events?limit=25": "25 events",
    f"{RUN}/events?limit=25&group=decisions": "its 6 proposals and decisions",
    f"{RUN}/cycles/1": "a cycle with a gate",
    f"{RUN}/cycles/1/pairs": "11 pairs",
    "/approvals": "2 questions",
}
_LONGEST_S = 60.0
_FORGET_S = 70.0
"""The server keeps a page that was closed for 60 s, for a phone that was locked."""


class _Running(NamedTuple):
    """A dashboard in a process of its own."""

    url: str
    process_id: int

    def resident_mb(self) -> float:
        lines = Path(f"/proc/{self.process_id}/status").read_text().splitlines()
        (found,) = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
        return int(found) / 1024


def measure(workshop: Workshop) -> Section:
    sizes = {"small": ManyRuns(20, 0), "large": ManyRuns(100, 1_000_000)}
    if workshop.quick:
        sizes["large"] = ManyRuns(25, 2_000)
    repeats, rounds = (2, 1) if workshop.quick else (15, 4)
    folders = {name: workshop.folder / "dashboard" / name for name in sizes}
    has = {}
    for name, size in sizes.items():
        started = time.perf_counter()
        has[name] = make(folders[name], size)
        say(f"{name} ledger made in {time.perf_counter() - started:.0f} s")
    with ExitStack() as stack:
        browser = stack.enter_context(_chromium())
        servers = {name: stack.enter_context(_dashboard(one)) for name, one in folders.items()}
        loads = [_page_row(browser, servers, name, repeats) for name in PAGES]
        calls = [_call_row(servers, path, 2 * repeats) for path in CALLS]
        say("pages and calls are measured")
    # Another process, which has not shown any page.
    with _chromium() as browser, _dashboard(folders["large"]) as server:
        memory = _memory(browser, server, rounds, quick=workshop.quick)
    targets = [
        Target("pages, large ledger against small", MOST_RATIO, max(one.ratio for one in loads)),
        Target("calls, large ledger against small", MOST_RATIO, max(one.ratio for one in calls)),
        Target(
            f"memory for each of {OPEN_PAGES} open pages",
            MOST_PER_PAGE_MB,
            (memory[0].opened - memory[0].before) / OPEN_PAGES,
            " MB",
        ),
    ]
    if rounds > 2:
        growth = memory[-1].opened - memory[1].opened
        targets.append(
            Target("growth from the 2nd to the last time", MOST_GROWTH_MB, growth, " MB")
        )
    return Section(
        "a hundred runs and a million events against twenty runs and hundreds",
        (
            table(("ledger", "runs", "episodes", "events"), (_size(*one) for one in has.items())),
            table(
                ("until the page shows it", "what", "small", "large", "ratio"), map(_cells, loads)
            ),
            table(("call below /api/v1", "what", "small", "large", "ratio"), map(_cells, calls)),
            table(
                (f"{OPEN_PAGES} pages", "before", "open", "closed"),
                (
                    (f"time {number}", *(f"{mb:.0f} MB" for mb in one))
                    for number, one in enumerate(memory, 1)
                ),
            ),
            target_table(targets),
        ),
        (
            "A real `lefleet dash` for each ledger, asked in turn. Pages: from the request in",
            f"Chromium until all rows of their tables are there, medians of {repeats} loads after",
            f"one; calls: medians of {2 * repeats} after one, over one connection. Both ledgers",
            "show the same: the first page has 20 runs whatever there is, and the small ledger has",
            "exactly 20. Runs are alike but for their number of events: 30 against 10,000; those",
            "beyond 30 tell of a stage that started and was killed again and again. Memory is the",
            "resident set of another server with the large ledger, which has shown nothing before:",
            "half of the pages are first pages, half those of runs; `closed` is 70 s after, when",
            "the server has forgotten them. Python keeps most of what it has once used for what",
            "comes next.",
        ),
    )


class _Row(NamedTuple):
    name: str
    shows: str
    small_s: float
    large_s: float

    @property
    def ratio(self) -> float:
        return self.large_s / self.small_s


class _Memory(NamedTuple):
    """Megabytes of the server."""

    before: float
    opened: float
    closed: float


@contextmanager
def _dashboard(workdir: Path) -> Iterator[_Running]:
    hidden = {name: "" for name in os.environ if name.startswith(("PYTEST", "NICEGUI"))}
    argv = python("-m", "lefleet", "dash", "--json", "--port", "0", "--workdir", str(workdir))
    with installed(ANY_PROGRAM), (workdir / "dash.log").open("wb") as log:
        child = launch(argv, stdout=PIPE, stderr=log, cwd=REPOSITORY, environment=hidden)
    try:
        assert child.stdout is not None
        yield _Running(json.loads(child.stdout.readline())["url"], child.pid)
    finally:
        stop(child)


@contextmanager
def _chromium() -> Iterator[Browser]:
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        yield browser
        browser.close()


def _page_row(browser: Browser, servers: dict[str, _Running], name: str, repeats: int) -> _Row:
    path, rows, shows = PAGES[name]
    seconds = _in_turn(servers, lambda server: _load_s(browser, server.url + path, rows), repeats)
    return _Row(name, shows, seconds["small"], seconds["large"])


def _load_s(browser: Browser, address: str, rows: int) -> float:
    page = browser.new_page()
    started = time.perf_counter()
    _open(page, address, rows)
    seconds = time.perf_counter() - started
    page.close()
    return seconds


def _open(page: Any, address: str, rows: int) -> None:
    page.goto(address, wait_until="commit")
    page.wait_for_function(
        f"document.querySelectorAll('tbody tr').length >= {rows}", timeout=_LONGEST_S * 1e3
    )


def _call_row(servers: dict[str, _Running], path: str, repeats: int) -> _Row:
    with httpx.Client(timeout=_LONGEST_S) as client:

        def call(server: _Running) -> float:
            started = time.perf_counter()
            client.get(f"{server.url}/api/v1{path}").raise_for_status()
            return time.perf_counter() - started

        seconds = _in_turn(servers, call, repeats)
    return _Row(path, CALLS[path], seconds["small"], seconds["large"])


def _in_turn(
    servers: dict[str, _Running], action: Callable[[_Running], float], repeats: int
) -> dict[str, float]:
    """Median seconds for each server, so that what else happens here concerns all of them."""
    found: dict[str, list[float]] = {name: [] for name in servers}
    for number in range(repeats + 1):
        for name, server in servers.items():
            seconds = action(server)
            if number:
                found[name].append(seconds)
    return {name: median(one) for name, one in found.items()}


def _memory(browser: Browser, server: _Running, rounds: int, *, quick: bool) -> list[_Memory]:
    found = []
    for number in range(rounds):
        before = server.resident_mb()
        pages = []
        for at in range(2 if quick else OPEN_PAGES):
            path, rows, _ = list(PAGES.values())[at % 2]
            pages.append(browser.new_page())
            _open(pages[-1], server.url + path, rows)
        time.sleep(0 if quick else 15)  # they are updated meanwhile
        opened = server.resident_mb()
        for page in pages:
            page.close()
        time.sleep(0 if quick else _FORGET_S)
        found.append(_Memory(before, opened, server.resident_mb()))
        say(f"pages opened and closed {number + 1} times: {found[-1]}")
    return found


def _size(name: str, size: ManyRuns) -> tuple[str, ...]:
    return name, f"{size.runs:,}", f"{size.episodes:,}", f"{size.events:,}"


def _cells(row: _Row) -> tuple[str, ...]:
    times = (f"{seconds * 1e3:.0f} ms" for seconds in (row.small_s, row.large_s))
    return row.name, row.shows, *times, f"{row.ratio:.2f}"
