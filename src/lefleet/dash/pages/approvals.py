"""What runs ask people: the evidence, and the two buttons; later, who said what."""

from functools import partial
from typing import NamedTuple

from fastapi import Request
from nicegui import ui

from lefleet.actions.answers import answer_question, make_answer
from lefleet.actions.people import Person
from lefleet.dash import charts
from lefleet.dash.pages.frame import RESPONSE_S, OpenPage, Site, cycle_address, run_address
from lefleet.dash.pages.parts import (
    LivePart,
    PlainText,
    Table,
    box,
    button,
    card,
    chart,
    chip,
    definitions,
    empty,
    link,
    terms,
)
from lefleet.errors import BadInput
from lefleet.ledger import ApprovalRow
from lefleet.queries.approvals import (
    QUESTIONS,
    Plateau,
    answered_approvals,
    open_approvals,
    plateau,
)
from lefleet.queries.cycles import CycleDetail, cycle_detail
from lefleet.queries.paging import DEFAULT_LIMIT, Page
from lefleet.queries.words import clock

_CONSEQUENCES = {
    "promote": "Yes: it becomes the blessed checkpoint. No: the baseline stays. Either way the "
    "run continues with the next cycle.",
    "escalate": "Yes: the next cycle trains on the next rung. No: it stays on this one.",
    "constitution": "Yes: the new rules hold from now on. No: the run stops.",
    "real_hardware": "Yes: the run may move robots. No: the run stops.",
}


class _Question(NamedTuple):
    asked: ApprovalRow
    cycle: CycleDetail | None
    plateau: Plateau | None
    """Of an escalation."""


def register(site: Site) -> None:
    @ui.page("/approvals", response_timeout=RESPONSE_S)
    async def approvals(request: Request, offset: int = 0) -> None:
        view = OpenPage(site, request, "Approvals", "Approvals")
        with view.main:
            PlainText("h1", "Approvals")
            waiting = LivePart[list[_Question]](lambda shown: _waiting(view, shown))
            said = LivePart[Page[ApprovalRow]](_said)

        def read() -> tuple[list[_Question], Page[ApprovalRow]]:
            asked = open_approvals(view.ledger)
            said = answered_approvals(view.ledger, offset=max(0, offset))
            return [_read(site, one) for one in asked], said

        def show(found: tuple[list[_Question], Page[ApprovalRow]]) -> None:
            waiting.show(found[0])
            said.show(found[1])

        await view.follow(read, show)


def _read(site: Site, asked: ApprovalRow) -> _Question:
    """With its evidence, as far as this lefleet can read it."""
    try:
        cycle = cycle_detail(site.reader, asked.run, asked.cycle)
        return _Question(asked, cycle, plateau(site.reader, asked))
    except BadInput:
        return _Question(asked, None, None)


def _waiting(view: OpenPage, questions: list[_Question]) -> None:
    if not questions:
        with card():
            empty(
                "Nothing waits for you",
                "A run asks before it promotes a checkpoint if its config says so.",
                commands=(f"lefleet demo --approvals.promote=human --name=mine{view.flag}",),
            )
    for one in questions:
        _question(view, one)


def _question(view: OpenPage, question: _Question) -> None:
    asked = question.asked
    with box("section", "card calls", id=f"question-{asked.id}"):
        with box("div", "row"):
            link(asked.run, run_address(asked.run))
            PlainText("span", f"cycle {asked.cycle} · question {asked.id}", "muted small")
        PlainText("h2", QUESTIONS[asked.kind])
        has_verdict = question.cycle is not None and question.cycle.verdict
        if asked.kind == "promote" and question.cycle is not None and has_verdict:
            _promotion(asked, question.cycle)
        else:
            PlainText("p", f"It asks whether to {asked.text}.", "why")
        if question.plateau is not None:
            _escalation(asked, question.plateau)
        for change in asked.evidence.get("changes", ()):
            PlainText("p", f"• {change}")
        if problem := asked.evidence.get("problem"):
            PlainText("p", f"✕ {problem}")
        PlainText("p", _CONSEQUENCES[asked.kind], "muted")
        terms(_CONSEQUENCES[asked.kind], asked.text)
        if asked.expires_at is not None:
            PlainText("p", f"Without an answer by {clock(asked.expires_at)}: {asked.on_timeout}.")
        if not view.may("approve"):
            PlainText(
                "p", "You may look, but not answer: ask for a token with --may approve.", "muted"
            )
            return
        PlainText("p", "A no asks for your reason before it is sent.", "muted small")
        with box("div", "row actions"):
            button("Yes", lambda: _say(view, asked, approved=True, why=""), "primary")
            button("No …", lambda: _ask_why(view, asked), "danger")


def _promotion(asked: ApprovalRow, cycle: CycleDetail) -> None:
    PlainText("p", cycle.verdict, "why")
    PlainText("p", f"It asks whether to {asked.text}.", "muted")
    if cycle.evidence is not None:
        chart(charts.evidence(cycle.evidence), cycle.verdict, "low")
    link("Evidence, pairs and films", cycle_address(asked.run, asked.cycle))


def _escalation(asked: ApprovalRow, found: Plateau) -> None:
    """Success that no longer rises, the gates that showed no difference, and both rungs."""
    definitions([("trains on now", found.rung), ("would train on", found.next_rung)])
    measured = [one for one in found.cycles if one.success_rate is not None]
    words = ", ".join(f"cycle {one.index} {one.success_rate:.0%}" for one in measured)
    if measured:
        chart(charts.success(found.cycles), f"Success over cycles: {words}", "low")
    with box("ul", "plain"):
        for one in found.gates:
            with box("li"):
                link(f"Cycle {one.cycle}", cycle_address(asked.run, one.cycle))
                PlainText("span", f" {one.text}")


async def _ask_why(view: OpenPage, asked: ApprovalRow) -> None:
    with view.dialog("Why not?") as dialog:
        PlainText(
            "p", "The reason is kept with the decision, for those who come after you.", "muted"
        )
        why = ui.textarea("Reason").props("outlined autofocus maxlength=2000")

        async def send() -> None:
            if await _say(view, asked, approved=False, why=why.value or ""):
                dialog.close()

        with box("div", "row actions"):
            button("Say no", send, "danger")
            button("Cancel", dialog.close)


async def _say(view: OpenPage, asked: ApprovalRow, *, approved: bool, why: str) -> bool:
    def answer(person: Person) -> bool:
        said = make_answer(approved=approved, who=person.name, why=why)
        answer_question(view.workdir, asked.id, said)
        return True

    verb = "Approved" if approved else "Rejected"
    return bool(await view.act("approve", answer, f"{verb}: {asked.run} continues."))


def _said(answered: Page[ApprovalRow]) -> None:
    if not answered.total:
        return
    with card("Who said what"):
        table = Table("Newest first.", ("when", "run", "question", "answer", "who", "why"))
        for one in answered.items:
            answer = one.answer
            if answer is None:
                continue
            table.row(
                clock(answer.at),
                partial(link, one.run, cycle_address(one.run, one.cycle)),
                f"{one.kind}, cycle {one.cycle}",
                partial(chip, "approved" if answer.approved else "rejected"),
                answer.who,
                answer.why or "–",
            )
        last = answered.offset + len(answered.items)
        with box("nav", "row", aria_label="More answers"):
            if answered.offset:
                link("← Newer", f"/approvals?offset={max(0, answered.offset - DEFAULT_LIMIT)}")
            if last < answered.total:
                link("Older →", f"/approvals?offset={last}")
