"""The result of a run as a picture: success over cycles, and beside it films of the last cycle."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    type FilmFrame = NDArray[np.uint8]

PLOT = "success.png"

_BLUE = "#1f3d5c"
_TASK_COLORS = ("#e08a2e", "#3a9a6a", "#8a63c4", "#c94f6d", "#3f8fc4", "#8c8c3a")
"""Of more tasks only the mean is drawn: the lines could not be told apart."""
_BLESSES = ("baseline", "promote")
_MOST_LABELS = 5
"""Labels of more cycles would overlap."""
_FILMS = 3
_FRAMES = 3


def plot_success(
    cycles: Sequence[dict[str, Any]], run: str, films: Sequence[Path], path: Path
) -> None:
    """Write the picture of evaluated `cycles`, as in summary.json."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    strips = {film.stem: frames for film in films[:_FILMS] if (frames := _frames(film))}
    figure = plt.figure(figsize=(9.6 if strips else 6.0, 3.9), layout="constrained")
    left, *right = figure.subfigures(1, 2, width_ratios=(1.5, 1)) if strips else (figure,)
    _rates(left.add_subplot(), cycles, run)
    for half in right:
        grid = half.subplots(len(strips), _FRAMES, squeeze=False)
        for row, (name, frames) in zip(grid, strips.items(), strict=True):
            for axes, frame in zip(row, frames, strict=True):
                axes.imshow(frame)
                axes.set(xticks=(), yticks=())
                axes.spines[:].set_visible(False)
            row[0].set_ylabel(name.rpartition("_")[0], fontsize=8)
        half.suptitle(f"cycle {cycles[-1]['index']}: start, middle and end", fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _rates(axes: "Axes", cycles: Sequence[dict[str, Any]], run: str) -> None:
    from matplotlib.ticker import MaxNLocator

    tasks = cycles[-1]["tasks"]
    if 1 < len(tasks) <= len(_TASK_COLORS):
        for task, color in zip(tasks, _TASK_COLORS, strict=False):
            evaluated = [cycle for cycle in cycles if task in cycle["tasks"]]
            rates = [cycle["tasks"][task]["success_rate"] for cycle in evaluated]
            axes.plot(_places(evaluated), rates, "--", color=color, linewidth=1, label=task)
    rates = [cycle["success_rate"] for cycle in cycles]
    below = [cycle["success_rate"] - cycle["interval"][0] for cycle in cycles]
    above = [cycle["interval"][1] - cycle["success_rate"] for cycle in cycles]
    axes.errorbar(
        _places(cycles), rates, (below, above), capsize=4, color=_BLUE, linewidth=2, label="all"
    )
    for is_blessed, fill, label in ((True, _BLUE, "blessed"), (False, "white", "not blessed")):
        shown = [one for one in cycles if (one["decision"] in _BLESSES) == is_blessed]
        if shown:
            rates = [cycle["success_rate"] for cycle in shown]
            (points,) = axes.plot(_places(shown), rates, "o", color=_BLUE, label=label, zorder=3)
            points.set(markerfacecolor=fill, markersize=7)
    if len(cycles) <= _MOST_LABELS:
        axes.set_xticks(_places(cycles), [_label(cycle) for cycle in cycles], fontsize=8)
    else:
        axes.set_xlabel("cycle")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_yticks((0, 0.25, 0.5, 0.75, 1), ("0%", "25%", "50%", "75%", "100%"))
    axes.set(ylim=(-0.03, 1.05))
    axes.set_title(f"{run}: success, with exact 95 % intervals", fontsize=9)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    axes.legend(fontsize=8, loc="lower right", frameon=False)


def _places(cycles: Sequence[dict[str, Any]]) -> list[int]:
    return [cycle["index"] for cycle in cycles]


def _label(cycle: dict[str, Any]) -> str:
    return (
        f"cycle {cycle['index']}: {cycle['success_rate']:.0%}\n"
        f"{cycle['demonstrations']} episodes\n{cycle['decision'] or ''}"
    )


def _frames(film: Path) -> "list[FilmFrame]":
    """Some frames of a film, evenly spaced; none where it cannot be read."""
    import av

    try:
        with av.open(film) as container:
            frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    except (OSError, av.FFmpegError):
        return []
    last = len(frames) - 1
    return [frames[round(last * at / (_FRAMES - 1))] for at in range(_FRAMES)] if frames else []
