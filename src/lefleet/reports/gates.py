"""Each gate of a run: verdict in plain words, evidence, who answered, films of its pairs."""

from collections.abc import Sequence

from lefleet.queries.approvals import ApprovalRow
from lefleet.queries.cycles import CycleDetail
from lefleet.records import TaskPairs
from lefleet.reports.charts import evidence_chart
from lefleet.reports.cycles import decision
from lefleet.reports.films import ReportFilms, ShownPair
from lefleet.reports.html import Markup, element, joined, moment, table

_OUTCOMES = {
    "won": "▲ won",
    "lost": "▼ lost",
    "both": "= both succeeded",
    "neither": "= both failed",
}


def gates_section(
    cycles: Sequence[CycleDetail], approvals: Sequence[ApprovalRow], films: ReportFilms
) -> Markup:
    """All gates, the newest first; empty where there was none."""
    gates = [one for one in reversed(cycles) if one.verdict]
    return joined(
        _gate(one, _asked(approvals, one.status.index), films.pairs.get(one.status.index, []))
        for one in gates
    )


def _asked(approvals: Sequence[ApprovalRow], cycle: int) -> list[ApprovalRow]:
    return [one for one in approvals if one.cycle == cycle]


def _gate(cycle: CycleDetail, asked: list[ApprovalRow], films: list[ShownPair]) -> Markup:
    status = cycle.status
    number = status.index
    against = f"cycle {cycle.baseline_cycle}" if cycle.baseline_cycle is not None else "another run"
    title = f"Evidence of cycle {number} against {against}"
    chart = evidence_chart(cycle.evidence, title) if cycle.evidence else Markup("")
    return element(
        "article",
        element("h3", f"Cycle {number} against {against}"),
        element("p", cycle.verdict, class_="verdict"),
        element("p", cycle.needed) if cycle.needed else "",
        element("p", element("strong", decision(status.decision)), f": {status.why}")
        if status.why
        else "",
        *(answered(one) for one in asked),
        element("figure", chart, element("figcaption", _reading(cycle))) if chart else "",
        _per_task(cycle.per_task),
        *(_pair(one) for one in films),
        _details(cycle),
        class_="card",
        id=f"gate-{number}",
    )


def answered(asked: ApprovalRow) -> Markup:
    """A question to a person, and its answer."""
    answer = asked.answer
    if answer is None:
        until = f" for a person to {asked.text}."
        return element("p", "◆ Waits since ", moment(asked.asked_at), until)
    word = "✓ Approved" if answer.approved else "✕ Rejected"
    why = f": {answer.why}" if answer.why else "."
    who = element("strong", f"{word} by {answer.who}")
    return element("p", who, ", ", moment(answer.at), why)


def _reading(cycle: CycleDetail) -> str:
    evidence = cycle.evidence
    if evidence is None or not evidence.pairs:
        return ""
    used, most = evidence.pairs[-1], evidence.max_pairs
    is_decided = cycle.gate is not None and cycle.gate.verdict != "inconclusive"
    unused = f" {most - used} of {most} planned pairs were not needed."
    return "The line decides when it crosses a dashed bound." + (
        unused if is_decided and used < most else ""
    )


def _per_task(per_task: dict[str, TaskPairs]) -> Markup:
    if not per_task:
        return Markup("")
    rows = [
        (
            task,
            str(one.pairs),
            f"▲ {one.wins}",
            f"▼ {one.losses}",
            f"{one.candidate.successes}/{one.candidate.episodes}",
            f"{one.baseline.successes}/{one.baseline.episodes}",
        )
        for task, one in per_task.items()
    ]
    head = ("task", "pairs", "won", "lost", "candidate succeeded", "baseline succeeded")
    return table(head, rows, caption="Pairs: both checkpoints from the same start.", numbers=5)


def _pair(shown: ShownPair) -> Markup:
    pair = shown.pair
    title = f"Pair {pair.number}: {pair.task}, seed {pair.seed}"
    other = "" if shown.is_same else " Filmed later, and not as in the gate: computed otherwise."
    return element(
        "div",
        element("h4", title, " ", element("span", _OUTCOMES[pair.outcome], class_="chip")),
        element("p", other, class_="muted small") if other else "",
        element(
            "div",
            _film("candidate", pair.candidate.success, pair.candidate.length, shown.candidate),
            _film("baseline", pair.baseline.success, pair.baseline.length, shown.baseline),
            class_="films",
        ),
        class_="pair",
    )


def _film(role: str, success: bool, length: int, film: Markup) -> Markup:
    steps = f" after {length} steps" if length else ""
    ended = f"{'✓ succeeded' if success else '✕ failed'}{steps}"
    caption = element("figcaption", element("strong", role), f": {ended}")
    return element("figure", film, caption)


def _details(cycle: CycleDetail) -> Markup:
    said = [one for one in cycle.remarks if one != cycle.needed]
    if not said:
        return Markup("")
    return element(
        "details",
        element("summary", "The numbers behind it"),
        *(element("p", one, class_="small") for one in said),
    )
