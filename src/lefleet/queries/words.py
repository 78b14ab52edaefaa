"""Progress, durations, times of day and commands in the words that terminal and pages share."""

import re
import shlex
import time
from pathlib import Path

from lefleet.stages.progress import StageProgress

DEFAULT_WORKDIR = Path("runs")
"""Where commands look for runs unless they are told."""


def progress_text(progress: StageProgress, now: float) -> str:
    """What a stage does, since when, and about how much longer."""
    elapsed = duration(now - progress.since)
    if not progress.total:
        return f"{progress.detail}, {elapsed}"
    remark = f" ({progress.detail})" if progress.detail else ""
    return f"{_count(progress)}{remark}, {elapsed}{_left(progress, now)}"


def _count(progress: StageProgress) -> str:
    of = " of at most " if progress.is_limit else "/"
    return f"{progress.done}{of}{progress.total} {progress.unit}"


def _left(progress: StageProgress, now: float) -> str:
    eta_s = progress.eta_s(now)
    if eta_s is None or progress.done >= progress.total:
        return ""
    most = "at most " if progress.is_limit else ""
    return f", {most}about {duration(eta_s)} left"


def duration(seconds: float) -> str:
    """7 s, 2 min 5 s, 3 h 20 min, 4 d 2 h."""
    whole = max(0, round(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if not minutes:
        return f"{whole} s"
    if not hours:
        return f"{minutes} min {whole % 60} s"
    return f"{hours} h {minutes % 60} min" if not days else f"{days} d {hours % 24} h"


def ago(at: float) -> str:
    """How long ago that was, roughly: 7 s ago, 3 h ago."""
    return f"{' '.join(duration(time.time() - at).split()[:2])} ago"


_BUDGETS = {
    "cycles": "cycles",
    "wall_hours": "in all",
    "device_hours": "of training and evaluation",
    "collected_episodes": "episodes collected",
    "evaluation_episodes": "episodes to judge checkpoints",
    "llm_tokens": "tokens of a language model",
}


def budget(name: str, used: float, limit: float) -> str:
    """What is used of a budget: 4 of 10 cycles, 24 s of 8 h in all; a limit of 0 is none."""
    of = f" of {_amount(name, limit)}" if limit else ""
    return f"{_amount(name, used)}{of} {_BUDGETS.get(name, name.replace('_', ' '))}"


def _amount(name: str, value: float) -> str:
    """Hours as people say them: 30 min, not 0.5."""
    if not name.endswith("_hours"):
        return f"{value:,.0f}"
    return duration(3600 * value).removesuffix(" 0 s").removesuffix(" 0 min").removesuffix(" 0 h")


def clock(at: float, *, with_seconds: bool = False) -> str:
    """A time on this machine's clock: 2026-01-31 12:00; of today without the date."""
    moment, now = time.localtime(at), time.localtime()
    day = "" if moment[:3] == now[:3] else "%Y-%m-%d "
    return time.strftime(f"{day}%H:%M{':%S' if with_seconds else ''}", moment)


def workdir_flag(workdir: Path) -> str:
    """What has to follow a command for it to find the runs of this folder."""
    is_default = workdir == DEFAULT_WORKDIR.resolve()
    return "" if is_default else f" --workdir {shlex.quote(str(workdir))}"


_TERMS = {
    "share": "Share: the part of the run's error budget (gate.alpha) that is one gate's own: so "
    "probable it may be that this gate calls a candidate better that is not.",
    "rung": "Rung: one entry of the config's ladder, a policy and how long it is trained. A run "
    "moves to the next one when the present one no longer improves.",
}


def explained(*texts: str) -> list[str]:
    """What the special terms in these texts mean, a sentence or two each."""
    words = set(re.findall(r"[a-z]+", " ".join(texts)))
    return [meaning for term, meaning in _TERMS.items() if words & {term, f"{term}s"}]


def shown_path(file: Path, workdir: Path) -> Path:
    """A file of a work folder as commands name it: in the usual folder from here on."""
    if workdir != DEFAULT_WORKDIR.resolve():
        return file
    return DEFAULT_WORKDIR / file.relative_to(workdir)


def hours_by_device(hours: dict[str, float]) -> str:
    """How long each device was used: 1 h 30 min on cuda, 12 min 36 s on cpu."""
    return ", ".join(f"{duration(3600 * used)} on {device}" for device, used in hours.items())
