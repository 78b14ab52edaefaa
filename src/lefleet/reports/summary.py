"""What a report says first: state, verdict, key figures, and what a person has to do."""

from lefleet.queries.cycles import CycleDetail
from lefleet.queries.marks import RUN_MARKS, STEP_MARKS
from lefleet.queries.run import FlowStep, RunDetail
from lefleet.queries.status import RunStatus, RunWord
from lefleet.queries.trouble import Trouble
from lefleet.queries.words import duration
from lefleet.reports.html import Markup, element, joined, moment

_TONES: dict[RunWord, str] = {
    "running": "busy",
    "waiting": "warn",
    "interrupted": "warn",
    "finished": "good",
    "stopped": "",
    "failed": "bad",
    "denied": "bad",
    "unreadable": "bad",
}


def head(detail: RunDetail, cycles: list[CycleDetail], at: float) -> Markup:
    """Name, state, verdict and key figures."""
    status, word = detail.status, detail.status.word
    verdict = _verdict(cycles)
    return element(
        "header",
        element("p", "LeFleet report · as of ", moment(at), class_="muted small"),
        element("h1", status.id),
        element("p", chip(f"{RUN_MARKS[word]} {word}", _TONES[word]), " ", _state(detail)),
        trouble(detail.trouble) if detail.trouble else "",
        element("p", verdict, class_="verdict") if verdict else "",
        _figures(detail),
    )


def chip(words: str, tone: str = "") -> Markup:
    """A shape and a word, and only then a colour."""
    return element("span", words, class_=f"chip {tone}".strip())


def trouble(one: Trouble) -> Markup:
    """Why the run stands still, and what it needs."""
    parts = [element("h2", one.title)]
    parts += [element("p", words) for words in (one.text, one.remedy) if words]
    if one.command:
        parts.append(element("p", element("code", one.command)))
    if one.log:
        log = element("pre", "\n".join(one.log), class_="log")
        parts.append(element("details", element("summary", f"The end of {one.log_file}"), log))
    calls = "bad" if one.kind in ("failed", "denied", "unreadable") else "calls"
    return element("section", *parts, class_=f"card {calls}")


def flow(steps: tuple[FlowStep, ...]) -> Markup:
    """The cycle that a run is in, step by step."""
    return element(
        "ol",
        *(
            element(
                "li",
                element("b", f"{STEP_MARKS[one.state]} {one.name}"),
                element("span", _step_words(one), class_="muted"),
                class_=one.state,
            )
            for one in steps
        ),
        class_="flow",
    )


def _step_words(step: FlowStep) -> str:
    return f"{step.state}: {step.detail}" if step.detail else step.state


def _state(detail: RunDetail) -> str:
    status = detail.status
    # Why it stands still is said below, at length.
    words = [] if detail.trouble else [detail.card.headline]
    if status.elapsed_s is not None:
        joint = "for" if status.word == "running" else "after"
        words.append(f"{joint} {duration(status.elapsed_s)}")
    return ", ".join(one for one in words if one)


def _verdict(cycles: list[CycleDetail]) -> Markup | None:
    """The newest gate in one sentence, or why there was none."""
    for one in reversed(cycles):
        where = element("strong", f"Cycle {one.status.index}. ")
        if one.verdict:
            return joined([where, one.verdict])
        if one.status.why:
            return joined([where, f"{(one.status.decision or '').capitalize()}: {one.status.why}."])
    return None


def _figures(detail: RunDetail) -> Markup:
    status, card = detail.status, detail.card
    best = status.best()
    figures = []
    if best is not None and best.success_rate is not None and best.interval is not None:
        low, high = best.interval
        figures.append(
            _figure(
                f"{best.success_rate:.0%}",
                "success of the blessed checkpoint",
                f"95 % interval {low:.0%} to {high:.0%}, {best.episodes} episodes",
            )
        )
    decided = sum(one.decision is not None for one in status.cycles)
    blessed = sum(one.decision in ("baseline", "promote") for one in status.cycles)
    figures.append(_figure(f"{decided} of {card.cycles}", "cycles decided", f"{blessed} blessed"))
    figures += _data_and_judging(status)
    return element("div", *figures, class_="figures")


def _data_and_judging(status: RunStatus) -> list[Markup]:
    used = {name: one.used for name, one in status.budgets.items()}
    if not used:
        return []
    return [
        _figure(
            f"{used.get('collected_episodes', 0.0):g}",
            "episodes collected",
            f"{used.get('evaluation_episodes', 0.0):g} episodes to judge checkpoints",
        )
    ]


def _figure(value: str, words: str, remark: str) -> Markup:
    return element(
        "div",
        element("strong", value),
        element("span", words),
        element("span", remark, class_="muted small"),
    )
