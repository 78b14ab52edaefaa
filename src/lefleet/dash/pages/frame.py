"""The frame of every page: top bar, what waits for a person, live updates, and how a page acts."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

from fastapi import Request, Response
from nicegui import Client, ui

from lefleet.actions.people import Person, Right, is_token_holder
from lefleet.dash.context import Context
from lefleet.dash.live import Change, Live
from lefleet.dash.pages.parts import LivePart, PlainText, box, card, link
from lefleet.dash.theme import STYLESHEET
from lefleet.errors import LeFleetError, Unknown
from lefleet.ledger import ApprovalRow, Ledger
from lefleet.queries.approvals import QUESTIONS, open_approvals
from lefleet.queries.words import workdir_flag

_LOG = logging.getLogger(__name__)
RESPONSE_S = 30.0
"""How long a page may take to read what it shows, on a busy machine."""
_PLACES = {
    "Runs": "/",
    "Approvals": "/approvals",
    "Fleet": "/fleet",
    "Episodes": "/episodes",
    "Knowledge": "/knowledge",
}


class Site:
    """What all pages share: one for each process. It starts and stops what watches for them."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.reader = context.reader
        self.live = Live(self._newest)
        self.fleet = context.fleet

    def _newest(self) -> tuple[int, ...]:
        ledger = self.context.ledger()
        return ledger.feed.newest(), ledger.labels.newest(), ledger.sections.newest_edit()

    def start(self) -> None:
        """In the event loop of the server."""
        self.live.start()

    def stop(self) -> None:
        self.live.stop()
        self.fleet.close()


class OpenPage:
    """One open page of one person.

    `read` asks for what the page shows, in a worker thread; `show` builds it, in the event loop.
    Both are called when the page is opened, and again whenever the ledger has changed.
    """

    def __init__(
        self, site: Site, request: Request, place: str, title: str, *, about: str = ""
    ) -> None:
        """`about` is the run that the page is about."""
        self.site = site
        self._about = about
        self.workdir = site.context.workdir
        self.flag = workdir_flag(self.workdir)
        """For commands to copy."""
        self._request = request
        self._client = ui.context.client
        ui.page_title(f"{title} · LeFleet")
        ui.add_head_html(f'<link rel="stylesheet" href="{STYLESHEET}">')
        skip = link("Skip to the content", "#content", "skip")
        skip.props["data-skip"] = "true"
        with box("header", "top"), box():
            link("LeFleet", "/", "brand").props["aria-label"] = "LeFleet, all runs"
            self._nav = LivePart[tuple[str, int]](self._build_nav)
            with box("span", "person"):
                PlainText("span", site.context.person(request).name)
                if is_token_holder(site.context.person(request)):
                    link("Log out", "/logout").style("margin-left: .6rem")
        self._place = place
        self.main = box("div", "content", id="content")
        with self.main:
            self._calls = LivePart[tuple[ApprovalRow, ...]](self._build_calls)
            self._problem = LivePart[tuple[str, str] | None](self._build_problem)
        self._dialogs = box("div")
        self._complaint: ui.notification | None = None
        """The problem that is shown as a message, also where the person has closed it."""

    @contextmanager
    def dialog(self, title: str, classes: str = "") -> Iterator[ui.dialog]:
        """Opens when it is built. It is outside of all parts, and stays whatever is built again
        below it."""
        self._dialogs.clear()
        with self._dialogs, ui.dialog() as made, ui.card().classes(f"dialog {classes}"):
            PlainText("h2", title)
            yield made
        made.open()

    def person(self) -> Person:
        """Whoever opened the page; raises where that person was logged out since."""
        return self.site.context.person(self._request)

    @property
    def ledger(self) -> Ledger:
        return self.site.context.ledger()

    def may(self, right: Right) -> bool:
        return right in self.person().may

    async def follow[Shown](
        self, read: Callable[[], Shown], show: Callable[[Shown], None], *, every_tick: bool = False
    ) -> None:
        """Show it now, and again whenever something has happened; with `every_tick` about once a
        second too, for what changes without an event."""

        is_due = is_busy = False

        async def refresh() -> None:
            try:
                approvals, shown = await asyncio.to_thread(self._read, read)
            except LeFleetError as error:
                # Counts only until the page is delivered.
                self._client.status_code = 404 if isinstance(error, Unknown) else 500
                with self._client:
                    self._nav.show_first((self._place, 0))
                    self._problem.show((error.problem, error.remedy))
                return
            if self._client.id not in self._client.instances:
                return
            with self._client:
                self._problem.show(None)
                self._nav.show((self._place, len(approvals)))
                self._calls.show(self._others(approvals))
                with self.main:
                    show(shown)

        async def changed(change: Change) -> None:
            """What happens during a refresh is shown by the next one."""
            nonlocal is_due, is_busy
            is_due = is_due or change.is_event or every_tick
            if is_busy:
                return
            is_busy = True
            try:
                while is_due:
                    is_due = False
                    await refresh()
            finally:
                is_busy = False

        self.site.live.changed.subscribe(changed)
        await changed(Change(is_event=True))

    def _others(self, approvals: tuple[ApprovalRow, ...]) -> tuple[ApprovalRow, ...]:
        """What waits for a person and is not on this page anyway."""
        if self._place == "Approvals":
            return ()
        return tuple(one for one in approvals if one.run != self._about)

    def _read[Shown](self, read: Callable[[], Shown]) -> tuple[tuple[ApprovalRow, ...], Shown]:
        return open_approvals(self.ledger), read()

    async def act[Done](
        self, right: Right, what: Callable[[Person], Done], said: str = ""
    ) -> Done | None:
        """Do something for the person of this page: one action at a time, with what went wrong
        shown. None where it could not be done."""
        try:
            self._dismiss()
            person = self.person()
            person.require(right)
            done = await asyncio.to_thread(self._locked, what, person)
        except LeFleetError as error:
            self.notify(str(error), is_problem=True)
            return None
        if said:
            self.notify(said)
        return done

    def notify(self, text: str, *, is_problem: bool = False) -> None:
        """A message that does not depend on the button that led to it, which may be gone by now. A
        problem stays until it is closed, or until the person does something else."""
        self._dismiss()
        with self._client:
            if not is_problem:
                ui.notify(text, type="positive")
                return
            self._complaint = ui.notification(
                text, type="negative", multi_line=True, timeout=None, close_button="Close"
            )

    def _dismiss(self) -> None:
        if self._complaint is not None and not self._complaint.is_deleted:
            self._complaint.dismiss()
        self._complaint = None

    def _locked[Done](self, what: Callable[[Person], Done], person: Person) -> Done:
        with self.site.context.acting():
            return what(person)

    def _build_problem(self, shown: tuple[str, str] | None) -> None:
        """Above what cannot be shown, or is no longer up to date."""
        if shown is None:
            return
        with card("This cannot be shown", "bad"):
            for text in filter(None, shown):
                PlainText("p", text)
            link("All runs", "/")

    def _build_nav(self, shown: tuple[str, int]) -> None:
        current, waiting = shown
        with box("nav", "main", aria_label="Pages"):
            for name, address in _PLACES.items():
                made = link("", address)
                with made:
                    PlainText("span", name)
                    if name == "Approvals" and waiting:
                        count = PlainText("span", str(waiting), "count")
                        count.props["aria-label"] = f"{waiting} waiting"
                if name == current:
                    made.props["aria-current"] = "page"

    def _build_calls(self, approvals: tuple[ApprovalRow, ...]) -> None:
        """In one line, however many wait."""
        if not approvals:
            return
        first, *others = approvals
        with card("", "calls slim"), box("div", "row apart"):
            if others:
                runs = ", ".join(dict.fromkeys(one.run for one in approvals))
                PlainText("p", f"◆ {len(approvals)} questions wait for your answer: {runs}")
                link("Answer them", "/approvals", "chip warn")
            else:
                PlainText("p", f"◆ {first.run} waits for your answer: {QUESTIONS[first.kind]}")
                link("Answer it", f"/approvals#question-{first.id}", "chip warn")


def say_sorry(error: Exception) -> None:
    """In place of a page that failed: what happened is for the log, not for the browser."""
    _LOG.error("event=page_failed", exc_info=error)
    _only("This page failed", "That is a defect of LeFleet. The log of lefleet dash has the error.")


async def say_missing(request: Request, _: Exception) -> Response:
    """In place of a page that does not exist, whatever its address names."""
    with Client(ui.page(""), request=request) as client:
        ui.page_title("No such page · LeFleet")
        query = f"?{request.url.query}" if request.url.query else ""
        _only("There is no such page", f"The dashboard has none at {request.url.path}{query}")
    return client.build_response(request, 404)


def _only(title: str, text: str) -> None:
    """A page that says one thing, and leads back."""
    ui.add_head_html(f'<link rel="stylesheet" href="{STYLESHEET}">')
    with box("div", "content"), card("", "bad"):
        PlainText("h1", title)
        PlainText("p", text)
        link("All runs", "/")


def run_address(run: str) -> str:
    return f"/runs/{quote(run, safe='')}"


def cycle_address(run: str, cycle: int) -> str:
    return f"{run_address(run)}/cycles/{cycle}"


def stage_film(run: str, cycle: int, stage: str, name: str) -> str:
    """Address of a film of a run."""
    return f"/media{run_address(run)}/cycles/{cycle}/{stage}/{quote(name, safe='')}"
