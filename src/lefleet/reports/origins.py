"""Where a run's results come from: training, data, budgets, people, configuration, versions and
seeds."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from lefleet.queries.events import EventLine
from lefleet.queries.run import RunDetail, StageSeed
from lefleet.queries.status import BudgetUse
from lefleet.queries.words import budget, hours_by_device
from lefleet.reports.charts import training_chart
from lefleet.reports.films import ReportFilms
from lefleet.reports.html import Markup, element, joined, moment, table

_PROGRAMS = ("lefleet", "lerobot", "torch", "mujoco", "numpy")
_SEEDS = "Episodes count up from it."


def films_section(films: ReportFilms) -> Markup:
    """Films of the newest evaluation, and which films are not in the report."""
    shown = [
        element(
            "figure",
            one.film,
            element(
                "figcaption",
                f"{one.episode.task}, seed {one.episode.seed}: "
                f"{'✓ succeeded' if one.episode.success else '✕ failed'}",
            ),
        )
        for one in films.episodes
    ]
    cycle = films.episodes[0].episode.cycle if films.episodes else None
    parts = []
    if shown:
        parts.append(element("p", f"The fixed evaluation of cycle {cycle}.", class_="muted small"))
        parts.append(element("div", *shown, class_="films many"))
    if films.left_out:
        parts.append(
            element(
                "p",
                f"{films.left_out} further films are left out of this file to keep it small. All "
                "are in the run's folder.",
                class_="muted small",
            )
        )
    return joined(parts)


def training_section(detail: RunDetail) -> Markup:
    """Loss over steps."""
    chart = training_chart(detail.curves)
    kinds = ", ".join(dict.fromkeys(one.policy_type for one in detail.curves))
    note = f"Policy: {kinds}. The newest training is drawn stronger."
    return element("figure", chart, element("figcaption", note)) if chart else Markup("")


def lineage_section(detail: RunDetail) -> Markup:
    """Which data made the blessed checkpoint."""
    made = detail.lineage
    if made is None:
        return Markup("")
    start = element("code", made.init[:12]) if made.init else "nothing: a fresh policy"
    rows = [
        (
            element("code", one.digest[:12]),
            "trained on" if one.is_trained_on else "part of it",
            f"{one.stage} of cycle {one.cycle}, {one.run}",
            str(one.episodes),
        )
        for one in made.data
    ]
    return joined(
        [
            _facts(
                {
                    "Blessed checkpoint": element("code", made.digest),
                    "Made by": f"cycle {made.cycle} of {made.run}",
                    "Training started from": start,
                    "Judged by": f"{made.judged_by} episodes, in evaluations and gates",
                }
            ),
            table(("dataset", "use", "made by", "episodes"), rows, caption="Its data.", numbers=1),
        ]
    )


def budgets_section(budgets: dict[str, BudgetUse], device_hours: dict[str, float]) -> Markup:
    """What is used of each; a bar where there is a limit."""
    shown = element("div", *(_budget(name, one) for name, one in budgets.items()), class_="budgets")
    if not device_hours:
        return shown
    devices = f"By device: {hours_by_device(device_hours)}."
    return joined([shown, element("p", devices, class_="muted small")])


def people_section(events: Sequence[EventLine], *, is_all: bool) -> Markup:
    """What people did, oldest first."""
    lines = [element("li", moment(one.at), " ", _with_cycle(one)) for one in reversed(events)]
    more = element("p", "Earlier events are left out.", class_="muted small")
    return joined([Markup("") if is_all else more, element("ul", *lines, class_="events")])


def config_section(detail: RunDetail, seeds: Sequence[StageSeed]) -> Markup:
    """All that is needed to repeat the run."""
    rows = [(f"cycle {one.cycle}", one.stage, str(one.first_seed)) for one in seeds]
    versions = {name: found for name in _PROGRAMS if (found := _version(name))}
    written = ", ".join(f"{name} {one}" for name, one in versions.items())
    return joined(
        [
            element(
                "details",
                element("summary", "Configuration"),
                element("pre", detail.config, class_="log"),
            ),
            element(
                "details",
                element("summary", "First seed of every stage"),
                table(("cycle", "stage", "first seed"), rows, caption=_SEEDS, numbers=1),
            )
            if rows
            else "",
            element(
                "p",
                f"This report was written with {written}, Python {platform.python_version()} on "
                f"{platform.system()} {platform.machine()}. Runs do not record versions.",
                class_="muted small",
            ),
        ]
    )


def _with_cycle(event: EventLine) -> str:
    return event.text if event.cycle is None else f"cycle {event.cycle}: {event.text}"


def _facts(pairs: dict[str, str]) -> Markup:
    terms = [
        part
        for term, value in pairs.items()
        for part in (element("dt", term), element("dd", value))
    ]
    return element("dl", *terms)


def _budget(name: str, one: BudgetUse) -> Markup:
    said = budget(name, one.used, one.limit)
    if not one.limit:
        return element("div", said, element("small", " no limit"))
    share = min(1.0, one.used / one.limit)
    bar = element("i", style=f"width: {100 * share:.0f}%")
    return element("div", said, element("div", bar, class_="bar", role="img", aria_label=said))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
