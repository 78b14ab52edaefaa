"""The evidence of a comparison as a picture: what decides, with its bounds, and the difference."""

from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lefleet.records import ComparisonRecord, GateLook
from lefleet.stats.sign_test import Spending

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOT = "evidence.png"


class BoundStyle(NamedTuple):
    """How a bound looks in every picture of evidence, so that it is told by more than a colour."""

    name: str
    dashes: tuple[int, ...]
    """Lengths of lines and gaps."""
    label: str
    """Written on the line where there is no room for the name."""


BETTER = BoundStyle("better from here", (7, 5), "better")
WORSE = BoundStyle("worse from here", (2, 4), "worse")
AT_MOST = BoundStyle("at most", (7, 5), "at most")
AT_LEAST = BoundStyle("at least", (2, 4), "at least")
_BLUE, _GREEN, _RED, _GREY = "#1f5fa8", "#2c7d3f", "#b03030", "#999999"


def plot_evidence(record: ComparisonRecord, title: str, path: Path) -> None:
    """Write the picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, figsize=(6.5, 6), sharex=True, layout="constrained")
    if record.metric == "success":
        _lead(above, record)
    else:
        _e_values(above, record)
    above.axhline(0.0, color=_GREY, linewidth=0.8)
    above.set_title(f"{title}: {record.gate.verdict}")
    above.legend(fontsize=8, loc="best")
    _difference(below, record)
    below.set_xlim(0, record.gate.max_pairs * 1.02)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def lead_bounds(looks: tuple[GateLook, ...], alpha: float, max_pairs: int) -> list[int]:
    """At each look the lead, won minus lost, from which on the gate decides at level `alpha`.

    It depends on the number of pairs that differ; until enough do, it is more than all of them.
    """
    import numpy as np

    spending, bounds = Spending.start(alpha, max_pairs), []
    for look in looks:
        differing = look.wins + look.losses
        spending = spending.look(look.pairs, np.array([differing]))
        bounds.append(2 * int(spending.boundary[0]) - differing)
    return bounds


def _lead(axes: "Axes", record: ComparisonRecord) -> None:
    """Success is decided by the exact test: pairs won minus lost, and the leads that suffice."""
    gate, looks = record.gate, record.looks
    # A bound is one of the look that it ends at: a gate may have had one look only.
    start = [0] if looks else []
    pairs = [*start, *(look.pairs for look in looks)]
    better = lead_bounds(looks, gate.alpha_better, gate.max_pairs)
    worse = lead_bounds(looks, gate.alpha_worse, gate.max_pairs)
    better, worse = [*better[:1], *better], [*worse[:1], *worse]
    _bound(axes, BETTER, (pairs, better), _GREEN, f"better, at level {gate.alpha_better:.2g}")
    lead = [*start, *(look.wins - look.losses for look in looks)]
    axes.plot(pairs, lead, "o-", color=_BLUE, label="pairs won minus lost")
    below = [-bound for bound in worse]
    _bound(axes, WORSE, (pairs, below), _RED, f"worse, at level {gate.alpha_worse:.2g}")
    axes.margins(y=0.15)
    axes.set(ylabel="won minus lost")


def _e_values(axes: "Axes", record: ComparisonRecord) -> None:
    """Progress is decided by e-values: the largest so far, which is 1 / p, and 1 / level."""
    gate, looks = record.gate, record.looks
    pairs = [look.pairs for look in looks]
    sides = (
        ("better", BETTER, _GREEN, [look.p_value for look in looks], gate.alpha_better),
        ("worse", WORSE, _RED, [look.p_worse for look in looks], gate.alpha_worse),
    )
    for side, style, color, p_values, alpha in sides:
        reached = [-log10(p_value) for p_value in p_values]
        axes.plot(pairs, reached, "o-", color=color, label=f"largest e-value for {side}")
        axes.axhline(
            -log10(alpha),
            linestyle=(0, style.dashes),
            color=color,
            linewidth=1.2,
            label=f"{side}, at level {alpha:.2g}: e = {1 / alpha:.3g}",
        )
    axes.set(ylabel="e-value (log10)")


def _bound(
    axes: "Axes",
    style: BoundStyle,
    line: tuple[list[int], list[int] | list[float]],
    color: str,
    label: str | None = None,
) -> None:
    """A bound with its name on it."""
    pairs, values = line
    axes.plot(pairs, values, linestyle=(0, style.dashes), color=color, linewidth=1.2, label=label)
    if pairs:
        axes.annotate(
            style.name,
            (pairs[-1], values[-1]),
            (-4, 4),
            textcoords="offset points",
            ha="right",
            color=color,
            fontsize=8,
        )


def _difference(axes: "Axes", record: ComparisonRecord) -> None:
    looks = record.looks
    pairs = [look.pairs for look in looks]
    # Before the first pair nothing is known.
    since = [0, *pairs]
    low = [-1.0, *(look.interval[0] for look in looks)]
    high = [1.0, *(look.interval[1] for look in looks)]
    label = "95 % confidence sequence"
    axes.fill_between(since, low, high, color=_BLUE, alpha=0.15, label=label)
    _bound(axes, AT_MOST, (since, high), _BLUE)
    _bound(axes, AT_LEAST, (since, low), _BLUE)
    if record.metric == "success":
        difference = [(look.wins - look.losses) / look.pairs for look in looks]
        axes.plot(pairs, difference, "o-", color=_BLUE, label="difference of success so far")
    axes.axhline(0.0, color=_GREY, linewidth=0.8)
    axes.set(xlabel="pairs", ylabel="difference", ylim=(-1.02, 1.02))
    axes.legend(fontsize=8, loc="lower right")
