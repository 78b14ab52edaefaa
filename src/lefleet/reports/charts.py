"""Success, evidence and training as SVG: pure functions of query results.

Colours and type come from the style of the page, by class, so that a chart fits light, dark and
paper. Each has a title and a description for those who do not see it.
"""

from collections.abc import Iterable, Sequence
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from lefleet.queries.cycles import EvidencePath
from lefleet.queries.run import TrainingCurve
from lefleet.queries.status import CycleStatus
from lefleet.reports.html import Markup, element, text
from lefleet.stages.evidence_plot import BETTER, WORSE

_WIDTH, _HEIGHT = 640.0, 330.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 16.0, 24.0, 66.0
_MOST_LABELS = 6
"""Labels of more points would overlap."""
_SHAPES = {"promote": "triangle", "baseline": "square", "rollback": "diamond"}
"""Of a decision's point; any other is a circle."""
_LINE = 20.0
"""Height of a line of text, on a phone."""
BLESSES = ("promote", "baseline")


class _Axes(NamedTuple):
    """Where values are on the picture."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        share = (value - self.x_low) / ((self.x_high - self.x_low) or 1.0)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self.y_low) / ((self.y_high - self.y_low) or 1.0)
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)

    def line(
        self, xs: Sequence[float], ys: Sequence[float], kind: str, dashes: Sequence[int] = ()
    ) -> Markup:
        places = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in zip(xs, ys, strict=True))
        dashed = {"stroke_dasharray": " ".join(map(str, dashes))} if dashes else {}
        return element("polyline", points=places, class_=kind, **dashed)


def success_chart(cycles: Sequence[CycleStatus]) -> Markup:
    """Success over cycles with exact intervals; the shape of a point tells its decision."""
    shown = [one for one in cycles if one.success_rate is not None and one.interval is not None]
    if not shown:
        return Markup("")
    axes = _Axes(shown[0].index - 0.5, shown[-1].index + 0.5, 0.0, 1.0)
    parts = [_grid(axes, [(one / 4, f"{25 * one}%") for one in range(5)])]
    step = ceil(len(shown) / _MOST_LABELS)
    rates = [one.success_rate or 0.0 for one in shown]
    parts.append(axes.line([one.index for one in shown], rates, "path faint"))
    for number, one in enumerate(shown):
        x, rate = axes.x(one.index), one.success_rate or 0.0
        low, high = one.interval or (rate, rate)
        is_labelled = number % step == 0 or number == len(shown) - 1
        parts += [_bar(x, axes.y(low), axes.y(high)), _point(one, x, axes.y(rate))]
        if is_labelled:
            parts.append(_label(f"{rate:.0%}", x + 13, axes.y(rate) + 4, "value start"))
            parts.append(_label(f"cycle {one.index}", x, _HEIGHT - _BOTTOM + 23, "mid"))
            parts.append(_label(one.decision or "open", x, _HEIGHT - _BOTTOM + 46, "mid strong"))
    said = "; ".join(
        f"cycle {one.index}: {one.success_rate:.0%}, {one.decision or 'not decided'}"
        for one in shown
    )
    return _chart("Success over cycles, with exact 95 % intervals", said, parts)


def evidence_chart(evidence: EvidencePath, title: str) -> Markup:
    """What decides, look by look, against its bounds; the pairs that were not needed are empty."""
    if not evidence.pairs:
        return Markup("")
    is_lead = evidence.metric == "success"
    pairs = [0.0, *map(float, evidence.pairs)]
    paths = [evidence.value, evidence.value_worse] if evidence.value_worse else [evidence.value]
    values = [one for line in (*paths, evidence.better, evidence.worse) for one in line]
    low, high = min(0.0, *values), max(0.0, *values)
    room = 0.12 * ((high - low) or 1.0)
    axes = _Axes(0.0, float(evidence.max_pairs), low - room * (low < 0), high + room)
    ticks = _round_ticks(axes.y_low, axes.y_high)
    names = [(one, (f"{one:+g}" if one else "0") if is_lead else f"{10**one:.3g}") for one in ticks]
    parts = [_grid(axes, names), *_pair_ticks(axes, evidence)]
    bounds = ((evidence.better, "bound good", BETTER), (evidence.worse, "bound bad", WORSE))
    for bound, kind, style in bounds:
        # A bound is one of the look that it ends at: a gate may have had one look only.
        parts.append(axes.line(pairs, [bound[0], *bound], kind, style.dashes))
    for line, kind in zip(paths, ("path", "path bad"), strict=False):
        parts.append(axes.line(pairs, [0.0, *line], kind))
        parts += [
            element("circle", cx=axes.x(x), cy=axes.y(y), r=4, class_=f"{kind} dot")
            for x, y in zip(evidence.pairs, line, strict=True)
        ]
    what = "pairs won minus lost" if is_lead else "evidence (e-value)"
    parts.append(_label(f"{what}, over pairs", _WIDTH / 2, _HEIGHT - 8, "mid"))
    parts += _bound_names(axes, evidence)
    last = evidence.pairs[-1]
    said = (
        f"After {last} of at most {evidence.max_pairs} pairs: {what} {evidence.value[-1]:g}; "
        f"better from {evidence.better[-1]:g}, worse from {evidence.worse[-1]:g}."
    )
    return _chart(title, said, parts)


def training_chart(curves: Sequence[TrainingCurve]) -> Markup:
    """Loss over steps, one line for each cycle, on a logarithmic scale where that is possible."""
    known = [(one.cycle, _points(one)) for one in curves]
    lines = [(cycle, points) for cycle, points in known if points]
    if not lines:
        return Markup("")
    losses = [loss for _, points in lines for _, loss in points]
    is_log = min(losses) > 0
    scaled = [log10(one) if is_log else one for one in losses]
    furthest = max(step for _, points in lines for step, _ in points)
    axes = _Axes(
        0.0, 1.2 * furthest, floor(min(scaled)) if is_log else min(0.0, *scaled), max(scaled) + 0.05
    )
    ticks = _round_ticks(axes.y_low, axes.y_high)
    names = [(one, f"{10**one:.2g}" if is_log else f"{one:.3g}") for one in ticks]
    parts, ends = [_grid(axes, names)], []
    for number, (cycle, points) in enumerate(lines):
        ys = [log10(loss) if is_log else loss for _, loss in points]
        is_last = number == len(lines) - 1
        parts.append(axes.line([step for step, _ in points], ys, "path" if is_last else "path old"))
        ends.append((axes.y(ys[-1]) + 4, axes.x(points[-1][0]) + 5, f"cycle {cycle}"))
    parts += _spread(ends[-_MOST_LABELS:])
    parts += [
        _label(f"{step:,}", axes.x(step), _HEIGHT - _BOTTOM + 23, "mid")
        for step in (0, furthest // 2, furthest)
    ]
    parts.append(_label("loss over training steps", _WIDTH / 2, _HEIGHT - 8, "mid"))
    said = "; ".join(f"cycle {cycle}: {points[-1][1]:.3g}" for cycle, points in lines)
    return _chart("Loss of each training", f"At the end: {said}.", parts)


def _spread(labels: list[tuple[float, float, str]]) -> list[Markup]:
    """Labels from the top down, none on another."""
    free_y, parts = 0.0, []
    for y, x, name in sorted(labels):
        free_y = max(y, free_y)
        parts.append(_label(name, x, free_y, "start"))
        free_y += _LINE
    return parts


def _points(curve: TrainingCurve) -> list[tuple[int, float]]:
    pairs = zip(curve.steps, curve.losses, strict=True)
    return [(step, loss) for step, loss in pairs if loss is not None and isfinite(loss)]


def _chart(title: str, said: str, parts: Iterable[Markup]) -> Markup:
    return element(
        "svg",
        element("title", title),
        element("desc", said),
        *parts,
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        class_="chart",
        aria_label=f"{title}. {said}",
    )


def _grid(axes: _Axes, ticks: Iterable[tuple[float, str]]) -> Markup:
    parts = []
    for value, name in ticks:
        y = axes.y(value)
        parts.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(_label(name, _LEFT - 8, y + 4, "end"))
    return element("g", *parts)


def _pair_ticks(axes: _Axes, evidence: EvidencePath) -> list[Markup]:
    used, most = evidence.pairs[-1], evidence.max_pairs
    ticks = {0, used, most} if most > 1.15 * used else {0, used}
    place = _HEIGHT - _BOTTOM + 23
    return [_label(str(one), axes.x(one), place, "mid") for one in sorted(ticks)]


def _bound_names(axes: _Axes, evidence: EvidencePath) -> list[Markup]:
    """Beyond the bounds, above the upper and below the lower one."""
    x = axes.x(evidence.pairs[-1])
    kind = "end" if x > _WIDTH / 2 else "start"
    better = _label(BETTER.name, x, axes.y(max(evidence.better)) - 8, f"{kind} good")
    # Of progress both are above, often at the same level.
    lowest = max(evidence.worse) if evidence.value_worse else min(evidence.worse)
    return [better, _label(WORSE.name, x, axes.y(lowest) + 20, f"{kind} bad")]


def _round_ticks(low: float, high: float) -> list[float]:
    """About five round numbers between these."""
    rough = ((high - low) or 1.0) / 5
    power = 10.0 ** floor(log10(rough))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough)
    return [round(step * one, 10) for one in range(ceil(low / step), floor(high / step) + 1)]


def _bar(x: float, low: float, high: float) -> Markup:
    path = f"M{x},{low}V{high}M{x - 7},{low}h14M{x - 7},{high}h14"
    return element("path", d=path, class_="interval")


def _point(cycle: CycleStatus, x: float, y: float) -> Markup:
    kind = "point good" if cycle.decision in BLESSES else "point"
    outlines = {
        "triangle": f"M{x},{y - 9}L{x + 8.5},{y + 6}H{x - 8.5}Z",
        "square": f"M{x - 6.5},{y - 6.5}h13v13h-13Z",
        "diamond": f"M{x},{y - 9}L{x + 9},{y}L{x},{y + 9}L{x - 9},{y}Z",
        "circle": f"M{x - 7},{y}a7,7 0 1,0 14,0a7,7 0 1,0 -14,0Z",
    }
    shape = _SHAPES.get(cycle.decision or "", "circle")
    return element("path", d=outlines[shape], class_=kind)


def _label(what: str, x: float, y: float, kind: str) -> Markup:
    return element("text", text(what), x=x, y=y, class_=kind)
