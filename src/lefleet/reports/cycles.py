"""Success over cycles: the chart, the table of cycles, and tasks as a heat map."""

from collections.abc import Sequence

from lefleet.queries.marks import decision_mark
from lefleet.queries.run import RunDetail
from lefleet.queries.status import CycleStatus, TaskStatus
from lefleet.queries.words import explained
from lefleet.reports.charts import success_chart
from lefleet.reports.html import Markup, element, joined, table


def success_section(detail: RunDetail) -> Markup:
    """Chart and table."""
    cycles = detail.status.cycles
    if not cycles:
        return element("p", "No cycle has a result yet.", class_="muted")
    chart = success_chart(cycles)
    note = "▲ promoted, ■ baseline, ◆ rolled back, ● other. Bars are exact 95 % intervals."
    return joined(
        [
            element("figure", chart, element("figcaption", note)) if chart else "",
            _cycles(cycles, detail.status.blessed),
            *(_reason(one) for one in cycles if one.why),
            *(
                element("p", meaning, class_="muted small")
                for meaning in explained(*(one.why or "" for one in cycles))
            ),
        ]
    )


def decision(word: str | None) -> str:
    """A decision with its shape."""
    return f"{decision_mark(word)} {word}" if word else "not decided"


def tasks_section(detail: RunDetail) -> Markup:
    """Success of every task in every cycle; the number says what the colour does."""
    cycles = [one for one in detail.status.cycles if one.tasks]
    if not cycles:
        return Markup("")
    tasks = list(dict.fromkeys(task for one in cycles for task in one.tasks))
    head = ["task", *(f"cycle {one.index}" for one in cycles)]
    rows = [[task, *(_rate(one.tasks.get(task)) for one in cycles)] for task in tasks]
    caption = "Success in the fixed evaluation, with the exact 95 % interval below it."
    return table(head, rows, caption=caption, numbers=len(cycles), scrolls=True)


def _rate(task: TaskStatus | None) -> Markup:
    if task is None:
        return element("span", "–", class_="muted")
    low, high = task.interval
    shade = min(4, int(5 * task.success_rate))
    return element(
        "span",
        element("b", f"{task.success_rate:.0%}"),
        element("small", f"{low:.0%} to {high:.0%}"),
        class_=f"heat h{shade}",
    )


def _cycles(cycles: Sequence[CycleStatus], blessed: str | None) -> Markup:
    head = ("cycle", "decision", "checkpoint", "episodes of data", "success", "95 % interval")
    rows = []
    for one in cycles:
        rate, interval = one.success_rate, one.interval
        mark = "✓ blessed" if one.checkpoint_digest and one.checkpoint_digest == blessed else ""
        digest = element("code", (one.checkpoint_digest or "")[:12])
        rows.append(
            (
                f"cycle {one.index}",
                decision(one.decision),
                joined([digest, f" {mark}" if mark else ""]),
                str(one.demonstrations or "–"),
                f"{rate:.0%}" if rate is not None else "–",
                f"{interval[0]:.0%} to {interval[1]:.0%}" if interval else "–",
            )
        )
    return table(head, rows, caption="What each cycle has come to.", numbers=3)


def _reason(cycle: CycleStatus) -> Markup:
    looked = [element("li", f"look at {one}") for one in cycle.diagnosis]
    return joined(
        [
            element("p", element("strong", f"Cycle {cycle.index}: "), cycle.why or ""),
            element("ul", *looked) if looked else "",
        ]
    )
