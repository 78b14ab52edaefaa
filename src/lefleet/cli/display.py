"""Records of stages as tables."""

from pathlib import Path
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lefleet.queries.comparison import remarks, sentence
from lefleet.records import (
    CheckpointRecord,
    ComparisonRecord,
    DatasetRecord,
    EnvelopeRecord,
    EvaluationRecord,
    MixRecord,
    Rate,
    Record,
)


def console() -> Console:
    """Stdout for people: text is printed as it is, without markup, highlighting or wrapping."""
    return Console(highlight=False, soft_wrap=True, markup=False)


def table(*columns: str) -> Table:
    """A table whose columns are aligned left."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column)
    return made


def show_record(record: Record, folder: Path) -> None:
    """Print the result of a stage for a person."""
    out = console()
    match record:
        case DatasetRecord():
            summary = _dataset(record)
        case CheckpointRecord():
            summary = _checkpoint(record)
        case EvaluationRecord():
            summary = _evaluation(record)
        case ComparisonRecord():
            summary = _comparison(record)
        case MixRecord():
            summary = _mix(record)
        case EnvelopeRecord():
            summary = _envelope(record)
    out.print(summary.title, style="bold")
    out.print(summary.table)
    for remark in summary.remarks:
        out.print(remark)
    out.print(f"{folder}/record.json", style="dim")


class _Summary(NamedTuple):
    title: str
    table: Table
    remarks: list[str]


def _dataset(record: DatasetRecord) -> _Summary:
    rows = _numbers("task", "episodes")
    for text, count in record.tasks.items():
        rows.add_row(Text(text), str(count))
    title = f"{_episodes(len(record.episodes))}, {record.frames} frames ({record.source})"
    return _Summary(title, rows, [f"digest {record.digest[:12]}"])


def _checkpoint(record: CheckpointRecord) -> _Summary:
    rows = _numbers("step", "loss")
    stride = max(1, len(record.curve) // 8)
    for point in record.curve[stride - 1 :: stride]:
        loss = "not a number" if point.loss is None else f"{point.loss:.4g}"
        rows.add_row(str(point.step), loss)
    loss = "" if record.final_loss is None else f", loss {record.final_loss:.4g}"
    title = f"{record.policy_type} after {record.steps} steps{loss}"
    remarks = [f"digest {record.digest[:12]}"]
    if record.normalisation is not None:
        remarks.append(record.normalisation.sentence())
        remarks += [
            f"{key}: {', '.join(names)} never changes in the data: centred, not scaled"
            for key, names in record.normalisation.unscaled.items()
        ]
    return _Summary(title, rows, remarks)


def _evaluation(record: EvaluationRecord) -> _Summary:
    rows = _numbers("task", "success")
    for task in record.tasks:
        rows.add_row(task, _rate(record.result.per_task[task]))
    rows.add_section()
    rows.add_row("all", _rate(record.result.overall))
    rows.add_row("progress", f"{record.result.mean_progress:.2f}")
    remarks = [f"No videos: {record.videos_note}"] if record.videos_note else []
    return _Summary("success, with the exact 95 % interval", rows, remarks)


def _comparison(record: ComparisonRecord) -> _Summary:
    gate = record.gate
    rows = _numbers("task", "pairs", "A won", "A lost", "A succeeds", "B succeeds")
    for task, one in record.per_task.items():
        rows.add_row(
            f"{task} (worse)" if task in gate.worse_tasks else task,
            str(one.pairs),
            str(one.wins),
            str(one.losses),
            f"{one.candidate.successes}/{one.candidate.episodes}",
            f"{one.baseline.successes}/{one.baseline.episodes}",
        )
    return _Summary(sentence(record), rows, remarks(record))


def _mix(record: MixRecord) -> _Summary:
    rows = _numbers("task", "kept/attempted", "added")
    for task, tally in record.tallies.items():
        rows.add_row(task, f"{tally.kept}/{tally.attempted}", str(record.added.get(task, 0)))
    title = (
        f"{record.method}: a mix of {_episodes(len(record.dataset.episodes))}, "
        f"{record.self_generated} of them self-generated"
    )
    return _Summary(title, rows, [record.note] if record.note else [])


def _envelope(record: EnvelopeRecord) -> _Summary:
    rows = _numbers("added", "success", "lost/won", "limit", "fallback", "p95", "age")
    for cell in record.cells:
        compared = f"{cell.lost}/{cell.won}", f"{100 * cell.least_difference:+.1f}"
        rows.add_row(
            f"{cell.delay_ms:g} ms",
            _percent(cell.success),
            *(compared if cell.delay_ms else ("", "")),
            f"{cell.fallback_share:.1%}",
            f"{cell.round_trip_p95_ms:.0f} ms",
            f"{cell.action_age_ms:.0f} ms",
        )
    remarks = [
        f"{_episodes(record.cells[0].success.episodes)} at each delay, on the same seeds. "
        "lost/won: episodes that only 0 ms, or only this delay, solved. limit: lower 95 % limit "
        "of the difference to 0 ms, in points. fallback: ticks without a fresh action. p95: round "
        "trip. age: of executed actions."
    ]
    if record.note:
        remarks.append(f"Nothing was kept beside the weights: {record.note}.")
        return _Summary("no envelope", rows, remarks)
    points = f"{100 * record.margin:g} points"
    remarks.append(
        f"Up to {record.delay_ms:g} ms, success was shown to fall by {points} at most."
        if record.delay_ms
        else f"At no delay was success shown to fall by {points} at most. More --episodes narrow "
        "the limit."
    )
    remarks.append("Robots with a longer round trip are warned, once the server has restarted.")
    title = f"envelope: round trips up to {record.envelope_ms:.0f} ms (p95)"
    return _Summary(title, rows, remarks)


def _episodes(count: int) -> str:
    return "1 episode" if count == 1 else f"{count} episodes"


def _numbers(first: str, *columns: str) -> Table:
    """A table of names and numbers; the numbers are aligned right."""
    made = table(first)
    for column in columns:
        made.add_column(column, justify="right")
    return made


def _rate(rate: Rate) -> str:
    return f"{rate.successes}/{rate.episodes} = {_percent(rate)}"


def _percent(rate: Rate) -> str:
    low, high = rate.interval
    return f"{rate.rate:.0%} ({low:.0%} to {high:.0%})"
