"""The evidence of a cycle's page: the path against its bounds, the difference, numbers, tasks."""

from lefleet.dash import charts
from lefleet.dash.pages.parts import PlainText, Table, box, card, chart, definitions
from lefleet.queries.cycles import CycleDetail, EvidencePath
from lefleet.records import GateResult, TaskPairs


def evidence(detail: CycleDetail) -> None:
    path = detail.evidence
    if path is None:
        return
    is_open = detail.gate is not None and detail.gate.ended == "open"
    with card("The evidence so far" if is_open else "The evidence"):
        with box("div", "columns"):
            with box("figure"):
                words = f"{detail.verdict} The line ends at {path.value[-1]:g}."
                chart(charts.evidence(path), words)
                PlainText(
                    "figcaption",
                    "Only pairs that differ move the line. It stops when it crosses a bound, or "
                    "when crossing one has become unlikely.",
                    "muted",
                )
            with box("figure"):
                words = _difference_words(path, detail.gate)
                chart(charts.difference(path), words)
                PlainText("figcaption", words, "muted")
        _numbers(detail)
        if detail.remarks:
            with box("details"):
                PlainText("summary", "For those who want the statistics")
                for remark in detail.remarks:
                    PlainText("p", remark, "small")


def _difference_words(path: EvidencePath, gate: GateResult | None) -> str:
    low, high = 100 * path.low[-1], 100 * path.high[-1]
    words = f"How much better: {low:+.0f} to {high:+.0f} points (95 %, at every look)."
    if gate is not None and gate.verdict == "better" and low <= 0:
        words += (
            " It contains 0: how much takes more pairs to show than that it is better at all, "
            "which the left picture shows."
        )
    return words


def _numbers(detail: CycleDetail) -> None:
    gate, level = detail.gate, detail.status.level
    if gate is None:
        return
    saved = (gate.fixed_pairs or 0) - gate.pairs
    rows = [
        ("pairs", f"{gate.pairs} used of at most {gate.max_pairs}"),
        ("won, lost", f"{gate.wins} won, {gate.losses} lost by the candidate"),
        ("p for better", f"{gate.p_value:.2g}, needed: {gate.alpha_better:.2g} or less"),
    ]
    if saved > 0 and gate.ended != "open":
        rows.append(("saved", f"{saved} pairs against a test of fixed size"))
    if level is not None and level.passed_on:
        own = f"{level.share:.2g} of its own, {level.passed_on:.2g} passed on by "
        rows.append(("level", f"{own}cycle {level.passed_by}"))
    baseline = (
        f"cycle {detail.baseline_cycle}" if detail.baseline_cycle is not None else "another run"
    )
    rows.append(("baseline", f"{detail.baseline[:12]} of {baseline}"))
    definitions(rows)


def per_task(found: dict[str, TaskPairs]) -> None:
    if len(found) < 2:
        return
    with card("By task"):
        table = Table(
            "Pairs of each task.", ("task", "pairs", "won", "lost", "candidate", "baseline")
        )
        for task, one in found.items():
            table.row(
                task,
                str(one.pairs),
                str(one.wins),
                str(one.losses),
                f"{one.candidate.successes} of {one.candidate.episodes}",
                f"{one.baseline.successes} of {one.baseline.episodes}",
            )
