"""The evidence of a cycle's page: the path against its bounds, the difference, numbers, tasks, and
both checkpoints on film."""

from nicegui import ui

from lefleet.dash import charts
from lefleet.dash.pages.frame import stage_film
from lefleet.dash.pages.parts import (
    PlainText,
    Table,
    box,
    button,
    card,
    chart,
    chip,
    definitions,
    film,
)
from lefleet.queries.comparison import saved_pairs
from lefleet.queries.cycles import CycleDetail, EvidencePath
from lefleet.queries.pairs import GatePair
from lefleet.records import GateResult, TaskPairs
from lefleet.stages.films import PairFilm

_OUTCOMES = {
    "won": "only the candidate succeeded",
    "lost": "only the baseline succeeded",
    "both": "both succeeded",
    "neither": "both failed",
}


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
            "which the first picture shows."
        )
    return words


def _numbers(detail: CycleDetail) -> None:
    gate, level = detail.gate, detail.status.level
    if gate is None:
        return
    rows = [
        ("pairs", f"{gate.pairs} used of at most {gate.max_pairs}"),
        ("won, lost", f"{gate.wins} won, {gate.losses} lost by the candidate"),
        ("p for better", f"{gate.p_value:.2g}, needed: {gate.alpha_better:.2g} or less"),
    ]
    if saved := saved_pairs(gate):
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


def is_filmed(made: PairFilm | None) -> bool:
    return made is not None and made.state == "made" and None not in (made.candidate, made.baseline)


def pair_title(pair: GatePair) -> str:
    return f"{pair.task}, seed {pair.seed}: {_OUTCOMES[pair.outcome]}"


def films(run: str, cycle: int, pair: GatePair) -> None:
    """Both checkpoints from the same start, side by side; nothing where there are no films."""
    made = pair.film
    if made is None:
        return
    with box("div", "films"):
        for role, one in (("candidate", made.candidate), ("baseline", made.baseline)):
            if one is None:
                continue
            words = "success" if one.success else "failure"
            with box("figure"):
                address = stage_film(run, cycle, "gate", one.video)
                film(address, f"{role} on {pair.task}, seed {pair.seed}: {words}")
                with box("figcaption", "row"):
                    PlainText("strong", role)
                    chip(words)
                    PlainText("span", f"{one.length} steps", "muted")
                    if not one.is_same:
                        PlainText("span", "◆ ended differently than in the gate", "small")
    button("Play both", _play_both)


def _play_both() -> None:
    """Both from the beginning, at once."""
    ui.run_javascript(
        "document.querySelectorAll('.films:not(.many) video')"
        ".forEach(v => {v.currentTime = 0; v.play()})"
    )
