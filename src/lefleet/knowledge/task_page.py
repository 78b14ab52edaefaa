"""The page of one task: success by data over all runs, what helped, what fails, what is open."""

from lefleet.knowledge.comparisons import disagreements
from lefleet.knowledge.drafts import (
    MOST_ROWS,
    READ,
    Known,
    attempts_words,
    data_words,
    file_link,
    front,
    lesson_items,
    page_link,
    page_path,
    rate_words,
    where,
)
from lefleet.knowledge.facts import OWN_SIMULATION, Measurement
from lefleet.knowledge.lessons import sources
from lefleet.knowledge.markup import bullets, counted, escape, interval, percent, table
from lefleet.knowledge.merge import Draft
from lefleet.records import AttemptCounts

_MOST_FILMS = 4


def task_draft(known: Known, task: str) -> Draft:
    """Of a task that was evaluated at least once."""
    from lefleet.stages.contract import task_text

    measured = [one for one in known.measured if one.tasks == (task,)]
    told = [one for one in known.lessons if one.tasks == (task,)]
    fields = front("task", task, told, sources(measured[-MOST_ROWS:]), known)
    is_own = any(one.environment == OWN_SIMULATION for one in measured)
    text = task_text(task) if is_own else task
    said = f"\n“{escape(text)}”\n" if text != task else ""
    sections = {
        "summary": f"# Task {escape(task)}\n{said}\n{_summary(measured)}\n",
        "results": f"## Success by data\n\n{_table(measured)}\n",
        "lessons": f"## What was learned\n\n{lesson_items(told)}\n\n{READ}\n",
        "failures": f"## Failures\n\n{bullets(_failures(known, task, measured))}\n",
        "questions": f"## Open questions\n\n{bullets(_questions(known, task, measured))}\n",
    }
    return Draft(page_path("task", task), fields, sections)


def best(measured: list[Measurement]) -> Measurement:
    """Of the highest rate; of several, that of most episodes, then of least data."""
    return max(
        measured,
        key=lambda one: (one.rate.rate, one.rate.episodes, -(one.demonstrations or 0)),
    )


def _summary(measured: list[Measurement]) -> str:
    top = best(measured)
    runs = len({one.run for one in measured})
    lines = [
        f"**Best: {percent(top.rate.rate)} of {top.rate.episodes} episodes** "
        f"({interval(top.rate.interval)} %) with {data_words(top)} demonstrations and "
        f"{page_link('policy', top.policy)} ({where(top)})."
    ]
    lines.append(f"Measured {counted(len(measured), 'time')} in {counted(runs, 'run')}.")
    return "\n".join(lines)


def _table(measured: list[Measurement]) -> str:
    shown = sorted(
        measured[-MOST_ROWS:],
        key=lambda one: (one.environment, one.policy, one.demonstrations or 0, one.events),
    )
    places = len({one.environment for one in measured}) > 1
    heads = ["demos", "success", "episodes", "policy", "training steps", "run"]
    rows = [
        [
            data_words(one),
            rate_words(one.rate),
            str(one.rate.episodes),
            page_link("policy", one.policy),
            str(one.steps),
            where(one),
            *([escape(one.environment)] if places else []),
        ]
        for one in shown
    ]
    text = table([*heads, *(["environment"] if places else [])], rows)
    if len(measured) > MOST_ROWS:
        text += f"\n\nThe newest {MOST_ROWS} of {len(measured)}."
    return text


def _failures(known: Known, task: str, measured: list[Measurement]) -> list[str]:
    lines = []
    newest = measured[-1]
    failed = newest.rate.episodes - newest.rate.successes
    place = where(newest)
    if failed:
        progress = (
            f", with {percent(newest.failed_progress)} progress on average"
            if newest.failed_progress is not None
            else ""
        )
        lines.append(
            f"The newest checkpoint fails in {failed} of {newest.rate.episodes} episodes{progress} "
            f"({place})."
        )
    else:
        lines.append(f"The newest checkpoint failed in none of {newest.rate.episodes} ({place}).")
    films = [film for one in reversed(measured) for film in one.films if not film.success]
    if films:
        links = [file_link(film.path) for film in films[:_MOST_FILMS]]
        lines.append(f"Films of failures, newest first: {', '.join(links)}.")
    lines += _hard_demonstrations(known, task)
    return lines


def _hard_demonstrations(known: Known, task: str) -> list[str]:
    """Where even the expert did not always succeed."""
    data = [one for run in known.runs for cycle in run.cycles if (one := cycle.dataset())]
    tallies = [one.tallies[task] for one in data if task in one.tallies]
    total = AttemptCounts(
        kept=sum(one.kept for one in tallies), attempted=sum(one.attempted for one in tallies)
    )
    if total.kept == total.attempted:
        return []
    return [f"The expert does not always succeed either: it took {attempts_words(total)}."]


def _questions(known: Known, task: str, measured: list[Measurement]) -> list[str]:
    lines = [
        f"{escape(one.text)} ({where(one.low)}, {where(one.high)}) What differs?"
        for one in disagreements(measured)
    ]
    top = best(measured)
    low, _ = top.rate.interval
    if top.rate.successes == 0:
        lines.append(
            "No checkpoint has ever succeeded: look at the data, the loss and the horizon before "
            "a bigger policy."
        )
    elif top.rate.successes < top.rate.episodes:
        lines.append(
            f"Nothing reached more than {percent(top.rate.rate)}: what do the failures have in "
            "common?"
        )
    else:
        lines.append(
            f"{top.rate.successes} of {top.rate.episodes} may still mean {percent(low)}: more "
            "episodes in the fixed block would tell."
        )
    told = [one for one in known.comparisons if one.after.tasks == (task,)]
    if told and all("training" in one.changes and len(one.changes) > 1 for one in told):
        lines.append(
            "Data and training steps always changed together. Which of them helps? "
            "`--continue_training=false` keeps the training the same."
        )
    if len({(one.run) for one in measured}) == 1:
        lines.append("Only one run has tried it: does it hold with another seed?")
    return lines
