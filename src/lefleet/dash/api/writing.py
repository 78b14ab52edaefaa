"""What a person may change, by the same `actions` as pages and commands; one change at a time."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Request
from msgspec import Meta

from lefleet.actions import runs as run_actions
from lefleet.actions.answers import answer_question, make_answer
from lefleet.actions.films import request_film
from lefleet.actions.labels import LabelResult, LabelWord, label_episode
from lefleet.actions.pages import PageSaved, edit_page
from lefleet.actions.people import Person, Right
from lefleet.actions.runs import Started, StartRequest
from lefleet.dash.api.reading import PathNumber
from lefleet.dash.api.routes import TypedRoutes, body_of
from lefleet.dash.context import Context
from lefleet.ledger import ApprovalRow
from lefleet.queries.approvals import approval
from lefleet.queries.datasets import place_of
from lefleet.queries.paging import FARTHEST
from lefleet.records.border import Strict
from lefleet.stages.films import PairFilm


class AnswerRequest(Strict, frozen=True, kw_only=True):
    """A yes or a no to what a run asks."""

    approved: bool
    why: str = ""
    """A no needs a reason."""


class LabelRequest(Strict, frozen=True, kw_only=True):
    """How an episode ended; undo takes its last label back."""

    outcome: LabelWord
    note: str = ""
    key: Annotated[str, Meta(min_length=1, max_length=200)]
    """Made up by whoever asks, such as a UUID: a request that is repeated with the same key adds
    nothing."""


class FilmRequest(Strict, frozen=True, kw_only=True):
    """A pair that a gate judged."""

    task: str
    seed: Annotated[int, Meta(ge=0, le=FARTHEST)]


class PageRequest(Strict, frozen=True, kw_only=True):
    """The new text of a knowledge page."""

    text: str
    base: str
    """`digest` of the page that was read before."""


class Plan(Strict, frozen=True, kw_only=True):
    """What a run would do."""

    lines: tuple[str, ...]


def add_writing(routes: TypedRoutes, context: Context) -> None:
    """All that changes something; each needs a right."""
    post, workdir = routes.post, context.workdir

    def may(right: Right) -> Any:
        async def require(request: Request) -> Person:
            person = context.person(request)
            person.require(right)
            return person

        return Depends(require)

    def do[Done](action: Callable[[], Done]) -> Done:
        with context.acting():
            return action()

    @post("/runs")
    def start_run(
        person: Annotated[Person, may("run")], body: Annotated[StartRequest, body_of(StartRequest)]
    ) -> Started:
        """Start a run; the same one again is found, and continues. Right: run."""
        return do(lambda: run_actions.start(workdir, context.configs, body, person.name))

    @post("/runs/plan")
    def plan_run(
        _: Annotated[Person, may("run")], body: Annotated[StartRequest, body_of(StartRequest)]
    ) -> Plan:
        """What a run would do; nothing is started. Right: run."""
        return Plan(lines=tuple(do(lambda: run_actions.plan(workdir, context.configs, body))))

    @post("/runs/{run}/stop")
    def stop_run(person: Annotated[Person, may("run")], run: str) -> Started:
        """Ask a run to stop; its stage is ended, which takes a moment. Right: run."""
        return do(lambda: run_actions.stop(workdir, run, person.name))

    @post("/runs/{run}/resume")
    def resume_run(person: Annotated[Person, may("run")], run: str) -> Started:
        """See that an unfinished run continues. Right: run."""
        return do(lambda: run_actions.resume(workdir, run, person.name))

    @post("/runs/{run}/cycles/{cycle}/films")
    def film_pair(
        person: Annotated[Person, may("film")],
        run: str,
        cycle: PathNumber,
        body: Annotated[FilmRequest, body_of(FilmRequest)],
    ) -> PairFilm:
        """Have both episodes of a pair filmed; ask again to see whether they are. Right: film."""
        return do(lambda: request_film(workdir, run, cycle, body.task, body.seed, person.name))

    @post("/approvals/{number}/answer")
    def answer_approval(
        person: Annotated[Person, may("approve")],
        number: PathNumber,
        body: Annotated[AnswerRequest, body_of(AnswerRequest)],
    ) -> ApprovalRow:
        """Say yes or no to what a run asks, and let it continue. Right: approve."""
        said = make_answer(approved=body.approved, who=person.name, why=body.why)
        do(lambda: answer_question(workdir, number, said))
        return approval(context.ledger(), number)

    @post("/datasets/{dataset}/episodes/{index}/labels")
    def label(
        person: Annotated[Person, may("label")],
        dataset: str,
        index: PathNumber,
        body: Annotated[LabelRequest, body_of(LabelRequest)],
    ) -> LabelResult:
        """Say how an episode ended. Right: label."""
        root = place_of(context.ledger(), workdir, context.datasets, dataset).root
        return do(
            lambda: label_episode(
                workdir,
                root,
                index,
                body.outcome,
                source="page",
                who=person.name,
                note=body.note,
                key=body.key,
            )
        )

    @routes.put("/knowledge/pages/{folder}/{name}")
    def save_page(
        person: Annotated[Person, may("edit")],
        folder: str,
        name: str,
        body: Annotated[PageRequest, body_of(PageRequest)],
    ) -> PageSaved:
        """Replace the text of a page, unless somebody else changed it since. Right: edit."""
        page = f"{folder}/{name}"
        return do(lambda: edit_page(workdir, page, body.text, body.base, person.name))
