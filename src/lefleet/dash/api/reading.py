"""Runs, cycles, approvals, datasets, knowledge and the fleet, as `queries` tells them."""

from importlib.metadata import version
from typing import Annotated

from fastapi import Path, Query, Request

from lefleet.actions.people import Right
from lefleet.actions.runs import Template
from lefleet.actions.runs import templates as known_templates
from lefleet.dash.api.routes import TypedRoutes
from lefleet.dash.context import Context
from lefleet.knowledge import Finding
from lefleet.knowledge.search import PageEntry, SearchHit
from lefleet.ledger import ApprovalRow
from lefleet.queries import approvals, cycles, datasets, episodes, events, knowledge, pairs
from lefleet.queries.approvals import answered_approvals, open_approvals
from lefleet.queries.cycles import CycleDetail, StageLog, require_begun, stage_log
from lefleet.queries.datasets import DatasetCard
from lefleet.queries.episodes import EpisodeCard, EpisodeDetail, LabelFilter
from lefleet.queries.events import EventGroup, EventPage
from lefleet.queries.fleet import FleetStatus
from lefleet.queries.knowledge import KnowledgePage
from lefleet.queries.paging import DEFAULT_LIMIT, FARTHEST, MOST, Page, part_of
from lefleet.queries.pairs import GatePair
from lefleet.queries.run import RunDetail, run_detail
from lefleet.queries.runs import RunList
from lefleet.queries.status import RunWord
from lefleet.records.border import Strict

PathNumber = Annotated[int, Path(ge=0, le=FARTHEST)]
_Offset = Annotated[int, Query(ge=0, le=FARTHEST)]
_Limit = Annotated[int, Query(ge=1, le=MOST)]
_LOOK_S = 3.0
"""How long servers and robots may take to be found by whoever asks first."""


class Health(Strict, frozen=True, kw_only=True):
    """The dashboard runs."""

    who: str
    """Name under which records show who asks."""
    may: tuple[Right, ...]
    """What they may do beyond looking."""
    version: str
    """Of LeFleet."""


def add_reading(routes: TypedRoutes, context: Context) -> None:
    """All that changes nothing."""
    get, reader = routes.get, context.reader

    @get("/health")
    def health(request: Request) -> Health:
        """Who asks, and what they may do."""
        person = context.person(request)
        return Health(who=person.name, may=person.may, version=version("lefleet"))

    @get("/runs")
    def runs(
        state: RunWord | None = None, offset: _Offset = 0, limit: _Limit = DEFAULT_LIMIT
    ) -> RunList:
        """Runs in a line each: those that need a person first."""
        return reader.runs(state=state or "", offset=offset, limit=limit)

    @get("/runs/{run}")
    def run(run: str) -> RunDetail:
        """One run whole."""
        return run_detail(reader, run)

    @get("/runs/{run}/events")
    def run_events(
        run: str,
        before: Annotated[int | None, Query(ge=1, le=FARTHEST)] = None,
        group: EventGroup = "all",
        limit: _Limit = DEFAULT_LIMIT,
    ) -> EventPage:
        """What happened, newest first."""
        return events.events(context.ledger(), run, before=before, group=group, limit=limit)

    @get("/runs/{run}/cycles/{cycle}")
    def run_cycle(run: str, cycle: PathNumber) -> CycleDetail:
        """One cycle: its decision and the evidence."""
        return cycles.cycle_detail(reader, run, cycle)

    @get("/runs/{run}/cycles/{cycle}/pairs")
    def gate_pairs(
        run: str,
        cycle: PathNumber,
        differing: bool = False,
        offset: _Offset = 0,
        limit: _Limit = DEFAULT_LIMIT,
    ) -> Page[GatePair]:
        """The pairs behind a gate; with `differing` those in which only one of the two succeeded.
        None where the cycle has no gate, or not yet."""
        require_begun(reader, run, cycle)
        return pairs.pairs(
            context.ledger(),
            context.workdir,
            run,
            cycle,
            differing=differing,
            offset=offset,
            limit=limit,
        )

    @get("/runs/{run}/cycles/{cycle}/stages/{stage}/log")
    def log_of_stage(
        run: str, cycle: PathNumber, stage: str, lines: Annotated[int, Query(ge=1, le=1000)] = 100
    ) -> StageLog:
        """The last lines of a stage's log; none before it has begun."""
        return stage_log(reader, run, cycle, stage, lines)

    @get("/templates")
    def templates(offset: _Offset = 0, limit: _Limit = DEFAULT_LIMIT) -> Page[Template]:
        """Configs that runs can be started from."""
        return part_of(known_templates(context.workdir, context.configs), offset, limit)

    @get("/approvals")
    def waiting_approvals(offset: _Offset = 0, limit: _Limit = DEFAULT_LIMIT) -> Page[ApprovalRow]:
        """Questions that wait for a person, oldest first."""
        return part_of(open_approvals(context.ledger()), offset, limit)

    @get("/approvals/answered")
    def past_approvals(offset: _Offset = 0, limit: _Limit = DEFAULT_LIMIT) -> Page[ApprovalRow]:
        """Who said what, newest first."""
        return answered_approvals(context.ledger(), offset=offset, limit=limit)

    @get("/approvals/{number}")
    def approval(number: PathNumber) -> ApprovalRow:
        """One question, and its answer where it has one."""
        return approvals.approval(context.ledger(), number)

    @get("/datasets")
    def known_datasets(offset: _Offset = 0, limit: _Limit = DEFAULT_LIMIT) -> Page[DatasetCard]:
        """Datasets of runs and of robots."""
        found = datasets.datasets(context.ledger(), context.workdir, context.datasets)
        return part_of(found, offset, limit)

    @get("/datasets/{dataset}")
    def dataset(dataset: str) -> DatasetCard:
        """One dataset at a glance."""
        return datasets.dataset(context.ledger(), context.workdir, context.datasets, dataset)

    @get("/datasets/{dataset}/episodes")
    def episodes_of_dataset(
        dataset: str,
        task: str = "",
        label: LabelFilter = "",
        offset: _Offset = 0,
        limit: _Limit = DEFAULT_LIMIT,
    ) -> Page[EpisodeCard]:
        """Episodes in their order: those of a task, and of a label."""
        return episodes.episodes(
            context.ledger(),
            context.workdir,
            context.datasets,
            dataset,
            task=task,
            label=label,
            offset=offset,
            limit=limit,
        )

    @get("/datasets/{dataset}/episodes/{index}")
    def episode(dataset: str, index: PathNumber) -> EpisodeDetail:
        """One episode with its tracks, and everything that was said of it."""
        return episodes.episode(context.ledger(), context.workdir, context.datasets, dataset, index)

    @get("/knowledge")
    def knowledge_pages(offset: _Offset = 0, limit: _Limit = DEFAULT_LIMIT) -> Page[PageEntry]:
        """Pages about tasks, policies and runs."""
        return part_of(knowledge.pages(context.workdir), offset, limit)

    @get("/knowledge/search")
    def search_knowledge(
        words: Annotated[str, Query(max_length=knowledge.LONGEST_SEARCH)],
        offset: _Offset = 0,
        limit: _Limit = DEFAULT_LIMIT,
    ) -> Page[SearchHit]:
        """Pages with all of the words, best first."""
        return part_of(knowledge.search(context.workdir, words), offset, limit)

    @get("/knowledge/lint")
    def knowledge_findings(offset: _Offset = 0, limit: _Limit = DEFAULT_LIMIT) -> Page[Finding]:
        """What is wrong with pages."""
        return part_of(knowledge.findings(context.ledger(), context.workdir), offset, limit)

    @get("/knowledge/pages/{folder}/{name}")
    def knowledge_page(folder: str, name: str) -> KnowledgePage:
        """One page whole; `folder/name` is its `page` in lists."""
        return knowledge.page(context.ledger(), context.workdir, f"{folder}/{name}")

    @get("/fleet")
    def fleet() -> FleetStatus:
        """Servers and robots, those with trouble first."""
        return context.fleet.status(wait_s=_LOOK_S)
