"""Success, evidence, training and tracks as options for ECharts: pure functions of query results.

Tooltips are drawn as text (`richText`), so that no name or task text is ever read as HTML. Colours
are those of `theme`, which CSS replaces in the dark.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lefleet.dash.theme import colours
from lefleet.queries.cycles import EvidencePath
from lefleet.queries.run import TrainingCurve
from lefleet.queries.status import CycleStatus
from lefleet.stages.evidence_plot import AT_LEAST, AT_MOST, BETTER, WORSE, BoundStyle

Options = dict[str, Any]
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'
"""As in theme.css: ECharts measures text by itself, and knows no inherited font."""
_SYMBOLS = {
    "baseline": "rect",
    "promote": "triangle",
    "rollback": "diamond",
    "escalate": "roundRect",
}
"""Of a decision; any other is a circle."""
_GRID = {"left": 52, "right": 18, "top": 42, "bottom": 46}
_GRID_WITH_LABELS = _GRID | {"right": 58}
"""With room for labels behind the last point."""


def _base(**parts: Any) -> Options:
    tone = colours()
    text = {"color": tone["muted"], "fontFamily": FONT, "fontSize": 12}
    return {
        "animation": False,
        "textStyle": text,
        "grid": _GRID,
        "legend": {
            "type": "scroll",
            "top": 0,
            "left": 0,
            "itemWidth": 18,
            "pageIconColor": tone["ink"],
            "pageIconInactiveColor": tone["line"],
            "pageTextStyle": {"color": tone["muted"]},
            "textStyle": {**text, "color": tone["ink"]},
        },
        "tooltip": {
            "trigger": "axis",
            "renderMode": "richText",
            "backgroundColor": tone["surface"],
            "borderColor": tone["line"],
            "textStyle": {"color": tone["ink"], "fontSize": 12},
        },
        **parts,
    }


def _with_rows(options: Options, rows: dict[int, int]) -> Options:
    """With the whole legend in view: on charts of at most so many pixels it takes so many rows,
    and the plot begins below them."""
    options["legend"] |= {"type": "plain"}
    options["media"] = [
        {"query": {"maxWidth": width}, "option": {"grid": {"top": 20 + 22 * count}}}
        for width, count in sorted(rows.items(), reverse=True)
    ]
    return options


def _axis(name: str, kind: str = "value", **more: Any) -> Options:
    tone = colours()
    is_x = more.pop("is_x", False)
    return {
        "type": kind,
        "name": name,
        "nameLocation": "middle",
        "nameGap": 30 if is_x else 38,
        "nameTextStyle": {"color": tone["muted"], "fontSize": 12},
        "axisLabel": {"color": tone["muted"]},
        "axisLine": {"lineStyle": {"color": tone["line"]}},
        "axisTick": {"lineStyle": {"color": tone["line"]}},
        "splitLine": {"show": not is_x, "lineStyle": {"color": tone["line"]}},
        **more,
    }


def success(cycles: Sequence[CycleStatus]) -> Options:
    """Success over cycles with exact intervals; the shape of a point is its decision."""
    tone = colours()
    shown = [one for one in cycles if one.success_rate is not None]
    points, intervals = [], []
    for one in shown:
        name, rate = f"cycle {one.index}", round(100 * (one.success_rate or 0.0), 1)
        label = one.decision or "not decided"
        is_good = one.decision in ("baseline", "promote")
        points.append(
            {
                "value": [name, rate],
                "symbol": _SYMBOLS.get(one.decision or "", "circle"),
                "symbolSize": 15,
                "itemStyle": {"color": tone["good" if is_good else "muted"]},
                "label": {
                    "show": True,
                    "position": "right",
                    "distance": 9,
                    "formatter": f"{rate:.0f} %\n{label}",
                    "color": tone["ink"],
                    "lineHeight": 15,
                    "backgroundColor": tone["surface"],
                    "padding": [0, 3],
                },
            }
        )
        if one.interval:
            low, high = (round(100 * edge, 1) for edge in one.interval)
            intervals.append([{"coord": [name, low]}, {"coord": [name, high]}])
    return _base(
        legend={"show": False},
        grid={"left": 52, "right": 76, "top": 16, "bottom": 46},
        xAxis=_axis(
            "cycle, in order; bars: 95 % intervals",
            "category",
            is_x=True,
            data=[f"cycle {one.index}" for one in shown],
        ),
        yAxis=_axis("success, %", min=0, max=100),
        series=[
            {
                "name": "success %",
                "type": "line",
                "data": points,
                "lineStyle": {"color": tone["accent"], "width": 2},
                "markLine": {
                    "silent": True,
                    "symbol": ["rect", "rect"],
                    "symbolSize": [12, 2],
                    "lineStyle": {"type": "solid", "width": 2, "color": tone["accent"]},
                    "label": {"show": False},
                    "data": intervals,
                },
            }
        ],
    )


def evidence(path: EvidencePath) -> Options:
    """What decides a gate, look by look, against the bounds that it has to cross."""
    tone = colours()
    pairs = [0, *path.pairs]
    is_success = path.metric == "success"
    # A bound is one of the look that it ends at: a gate may have had one look only.
    better = _bound(BETTER, pairs, [path.better[0], *path.better], tone["good"])
    worse = _bound(WORSE, pairs, [path.worse[0], *path.worse], tone["bad"], is_below=not is_success)
    name = "won minus lost" if is_success else "evidence for better (log10 e)"
    lines = [
        better,
        _line(name, pairs, [0.0, *path.value], tone["accent"], symbol="circle"),
        worse,
    ]
    if path.value_worse:
        name = "evidence for worse (log10 e)"
        lines.append(_line(name, pairs, [0.0, *path.value_worse], tone["warn"]))
    options = _base(
        grid=_GRID_WITH_LABELS,
        xAxis=_axis("pairs judged", is_x=True, min=0, max=path.max_pairs),
        yAxis=_axis("won minus lost" if is_success else "log10 of e"),
        series=lines,
    )
    return _with_rows(options, {420: 2} if is_success else {760: 2, 420: 4})


def difference(path: EvidencePath) -> Options:
    """How much better: the 95 % confidence sequence of the difference."""
    tone = colours()
    # Before the first pair nothing is known.
    pairs = [0, *path.pairs]
    low = [-100.0, *(round(100 * one, 1) for one in path.low)]
    high = [100.0, *(round(100 * one, 1) for one in path.high)]
    zero = {
        "silent": True,
        "symbol": "none",
        "label": {"show": False},
        "lineStyle": {"color": tone["muted"], "type": "solid"},
        "data": [{"yAxis": 0}],
    }
    return _base(
        grid=_GRID_WITH_LABELS,
        xAxis=_axis("pairs judged", is_x=True, min=0, max=path.max_pairs),
        yAxis=_axis("points", min=-100, max=100),
        series=[
            {**_bound(AT_MOST, pairs, high, tone["accent"]), "markLine": zero},
            _bound(AT_LEAST, pairs, low, tone["accent"], is_below=True),
        ],
    )


def training(curves: Sequence[TrainingCurve]) -> Options:
    """Loss over steps, one line for each cycle; the newest stands out."""
    tone = colours()
    older = ["muted", "warn", "good"]
    lines = []
    for number, one in enumerate(curves):
        is_newest = number == len(curves) - 1
        colour = tone["accent" if is_newest else older[number % len(older)]]
        line = _line(f"cycle {one.cycle}", one.steps, one.losses, colour)
        line["lineStyle"]["type"] = "solid" if is_newest else ["dashed", "dotted"][number % 2]
        lines.append(line)
    return _base(
        xAxis=_axis("training step", is_x=True),
        yAxis=_axis("loss (log)", "log"),
        series=lines,
    )


def tracks(times: Sequence[float], columns: Mapping[str, Sequence[float | None]]) -> Options:
    """Columns of a recorded episode over time."""
    tone = colours()
    names = ("accent", "good", "warn", "bad", "muted", "ink")
    kinds = ("solid", "dashed", "dotted")
    lines = []
    for number, (name, values) in enumerate(columns.items()):
        line = _line(name, times, values, tone[names[number % len(names)]])
        line["lineStyle"]["type"] = kinds[number // len(names) % len(kinds)]
        lines.append(line)
    return _base(xAxis=_axis("seconds", is_x=True), yAxis=_axis(""), series=lines)


def _line(
    name: str,
    x: Sequence[float],
    y: Sequence[float | None],
    colour: str,
    symbol: str = "none",
) -> Options:
    return {
        "name": name,
        "type": "line",
        "symbol": symbol,
        "symbolSize": 7,
        "data": [list(point) for point in zip(x, y, strict=True)],
        "itemStyle": {"color": colour},
        "lineStyle": {"color": colour, "width": 2, "type": "solid"},
    }


def _bound(
    style: BoundStyle,
    x: Sequence[float],
    y: Sequence[float],
    colour: str,
    *,
    is_below: bool = False,
) -> Options:
    """A bound with a label behind its end, above it, clear of the axis; or below it, where the
    label would meet another one or the line at 0."""
    line = _line(style.name, x, y, colour)
    line["lineStyle"]["type"] = list(style.dashes)
    line["endLabel"] = {
        "show": True,
        "formatter": style.label,
        "color": colour,
        "fontFamily": FONT,
        "fontSize": 12,
        "distance": 6,
        "offset": [0, 6 if is_below else -6],
    }
    return line
