"""The parts of a run's page: flow, decisions, tasks, training, lineage, films, budgets, config."""

from collections.abc import Sequence

from lefleet.dash import charts
from lefleet.dash.pages.frame import cycle_address, stage_film
from lefleet.dash.pages.parts import (
    PlainText,
    bar,
    box,
    card,
    chart,
    chip,
    definitions,
    film,
    link,
    terms,
)
from lefleet.queries.marks import STEP_MARKS
from lefleet.queries.run import CheckpointLineage, EvaluationFilm, FlowStep, TrainingCurve
from lefleet.queries.status import BudgetUse, CycleStatus
from lefleet.queries.words import budget

LINEAGE = "lineage"
"""Where on a run's page the data of its blessed checkpoint are."""
_STEP_WORDS = {"next": "to come", "skipped": "skipped", "done": "done"}
_STEP_DOES = {
    "propose": "what to do",
    "collect": "data",
    "train": "a candidate",
    "evaluate": "a fixed block",
    "gate": "against the baseline",
    "decide": "promote or not",
    "improve": "more data",
}


def flow(title: str, steps: tuple[FlowStep, ...]) -> None:
    """The loop with the current stage lit."""
    if not steps:
        return
    with card(title), box("ol", "flow"):
        for step in steps:
            item = box("li", step.state)
            item.props["title"] = step.detail
            if step.state == "now":
                item.props["aria-current"] = "step"
            with item:
                PlainText("b", f"{STEP_MARKS[step.state]} {step.name}")
                words = step.detail or _STEP_WORDS.get(step.state, "")
                PlainText("span", words or _STEP_DOES.get(step.name, ""), "detail")
                if step.progress is not None:
                    bar(step.progress, f"{step.name} {step.progress:.0%} done")


def decisions(run: str, cycles: tuple[CycleStatus, ...], blessed: str | None) -> None:
    """Success over cycles, and why each candidate was promoted or not."""
    if not cycles:
        return
    with card("Success and decisions"), box("div", "columns"):
        measured = [one for one in cycles if one.success_rate is not None]
        words = ", ".join(f"cycle {one.index} {one.success_rate:.0%}" for one in measured)
        if measured:
            chart(charts.success(cycles), f"Success over cycles: {words}")
        else:
            PlainText("p", "The first point appears after the first evaluation.", "muted")
        with box("div", "stack"):
            for one in reversed(cycles):
                _decision(run, one, is_blessed=bool(blessed) and one.checkpoint_digest == blessed)
            terms(*(one.why or "" for one in cycles))


def _decision(run: str, one: CycleStatus, *, is_blessed: bool) -> None:
    with box("div"):
        with box("div", "row"):
            PlainText("h3", f"Cycle {one.index}")
            if one.decision:
                chip(one.decision)
            if is_blessed:
                chip("blessed")
                link("Which data made it", f"#{LINEAGE}", "small")
            if one.success_rate is not None and one.interval:
                low, high = one.interval
                PlainText(
                    "span", f"{one.success_rate:.0%} ({low:.0%} to {high:.0%})", "muted small"
                )
        PlainText("p", one.why or "Not decided yet.")
        for remark in one.diagnosis:
            PlainText("p", f"Look at {remark}", "muted small")
        has_gate = one.gate is not None or "gate" in one.stages
        link(
            "Evidence, pairs and films" if has_gate else "Stages and logs",
            cycle_address(run, one.index),
        )


def tasks(cycles: tuple[CycleStatus, ...]) -> None:
    """Success of every task in every cycle, as a heat map with its numbers."""
    shown = [one for one in cycles if one.tasks]
    if not shown:
        return
    with card("Success by task"):
        columns = ("task", *(f"cycle {one.index}" for one in shown))
        with box("div", "scroll"), box("table", "facts heat"):
            PlainText(
                "caption", "Of the fixed block of each cycle; point at a cell for its interval."
            )
            with box("thead"), box("tr"):
                for name in columns:
                    PlainText("th", name).props["scope"] = "col"
            with box("tbody"):
                for task in dict.fromkeys(task for one in shown for task in one.tasks):
                    with box("tr"):
                        PlainText("th", task).props["scope"] = "row"
                        for one in shown:
                            _cell(one, task)


def _cell(cycle: CycleStatus, task: str) -> None:
    found = cycle.tasks.get(task)
    if found is None:
        PlainText("td", "–", "cell")
        return
    shade = min(4, int(5 * found.success_rate))
    low, high = found.interval
    cell = PlainText("td", f"{found.success_rate:.0%}", f"cell h{shade}")
    cell.props["title"] = f"{found.episodes} episodes, 95 % interval {low:.0%} to {high:.0%}"


def training(curves: tuple[TrainingCurve, ...]) -> None:
    """The loss of every training."""
    with card("Training"):
        if not curves:
            PlainText("p", "The loss appears when the first training is done.", "muted")
            return
        ends = ", ".join(f"cycle {one.cycle} {_last(one.losses)}" for one in curves)
        chart(charts.training(curves), f"Loss over training steps; at the end: {ends}", "low")
        PlainText("p", f"Loss at the end: {ends}.", "muted small")


def _last(losses: Sequence[float | None]) -> str:
    known = [one for one in losses if one is not None]
    return f"{known[-1]:.3g}" if known else "unknown"


def lineage(found: CheckpointLineage | None) -> None:
    """Which data made the blessed checkpoint, and what judged it."""
    with card("Which data made the blessed checkpoint") as section:
        section.props["id"] = LINEAGE
        if found is None:
            PlainText("p", "No checkpoint is blessed yet.", "muted")
            return
        data_of(found)


def data_of(found: CheckpointLineage) -> None:
    """The data that a checkpoint was trained on, with the way to their episodes."""
    trained = [one for one in found.data if one.is_trained_on]
    parts = [one for one in found.data if not one.is_trained_on]
    definitions(
        [
            ("checkpoint", f"{found.digest[:12]}, cycle {found.cycle} of {found.run}"),
            ("started from", found.init[:12] if found.init else "scratch"),
            ("judged by", f"{found.judged_by} episodes"),
        ]
    )
    for title, group in (("Trained on", trained), ("Merged from", parts)):
        if not group:
            continue
        PlainText("h3", title).style("margin-top: .8rem")
        with box("ul"):
            for one in group:
                with box("li"):
                    count = "1 episode" if one.episodes == 1 else f"{one.episodes} episodes"
                    link(
                        f"Watch its {count}" if one.is_trained_on else count, f"/episodes/{one.id}"
                    )
                    where = f"{one.stage} of cycle {one.cycle}"
                    where += f" of {one.run}" if one.run != found.run else ""
                    PlainText("span", f" · {where} · {one.digest[:12]}", "muted small")


def films(run: str, shown: tuple[EvaluationFilm, ...]) -> None:
    """Films of the newest evaluation."""
    if not shown:
        return
    with card(f"Films of cycle {shown[0].cycle}"), box("div", "films many"):
        for one in shown:
            words = "success" if one.success else "failure"
            with box("figure"):
                address = stage_film(run, one.cycle, "evaluate", one.file)
                film(address, f"{one.task}, seed {one.seed}: {words}")
                with box("figcaption", "row"):
                    PlainText("span", one.task)
                    chip(words)


def budgets(shown: tuple[dict[str, BudgetUse], str]) -> None:
    """What is used of each, and how long each device was used."""
    uses, devices = shown
    with card("Budgets"):
        for name, use in uses.items():
            if use.limit:
                words = budget(name, use.used, use.limit)
                PlainText("div", words, "small")
                bar(use.used / use.limit, words)
        rest = [budget(name, use.used, 0.0) for name, use in uses.items() if not use.limit]
        if rest:
            PlainText("p", f"Without a limit: {', '.join(rest)}.", "muted small")
        if devices:
            PlainText("p", f"By device: {devices}.", "muted small")


def config(text: str) -> None:
    with card("Config"), box("details"):
        PlainText("summary", "As the run was begun")
        PlainText("pre", text, "log")
