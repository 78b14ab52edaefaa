"""The page of one policy: the settings of its rung, its trainings, and its results by task."""

from lefleet.knowledge.drafts import (
    MOST_ROWS,
    READ,
    Known,
    answer_words,
    data_words,
    front,
    lesson_items,
    page_link,
    page_path,
    rate_words,
    start_words,
    where,
)
from lefleet.knowledge.facts import ALL, CycleFacts, Measurement, RunFacts
from lefleet.knowledge.lessons import sources
from lefleet.knowledge.markup import bullets, clean, counted, escape, listed, table
from lefleet.knowledge.merge import Draft
from lefleet.knowledge.task_page import best
from lefleet.records import Rung


def policy_draft(known: Known, policy: str) -> Draft:
    """Of a rung that trained at least one evaluated checkpoint."""
    trained = [
        (run, cycle)
        for run in known.runs
        for cycle in run.cycles
        if cycle.measured and (rung := run.rung(cycle)) and rung.name == policy
    ]
    measured = [one for one in known.measured if one.policy == policy]
    told = [
        one
        for one in known.lessons
        if one.comparisons[0].is_whole and any(c.after.policy == policy for c in one.comparisons)
    ]
    tasks = list(dict.fromkeys(one.tasks[0] for one in measured))
    fields = front(
        "policy",
        policy,
        told,
        sources(measured[-MOST_ROWS:]),
        known,
        tasks=[clean(task) for task in tasks],
    )
    sections = {
        "summary": _summary(policy, trained, measured),
        "settings": f"## Settings\n\n{_settings(trained)}\n",
        "results": f"## Results by task\n\n{_results(measured)}\n",
        "trainings": f"## Trainings\n\n{_trainings(trained)}\n",
        "lessons": f"## What was learned\n\n{lesson_items(told)}\n\n{READ}\n",
        "people": f"## What people decided\n\n{_people(trained)}\n",
    }
    return Draft(page_path("policy", policy), fields, sections)


type _Trained = list[tuple[RunFacts, CycleFacts]]


def _summary(policy: str, trained: _Trained, measured: list[Measurement]) -> str:
    tops = [best(list(one)) for one in _by_task(measured).values()]
    reached = listed([f"{page_link('task', t.tasks[0])} {rate_words(t.rate)}" for t in tops])
    runs = counted(len({run.run for run, _ in trained}), "run")
    return (
        f"# Policy {escape(policy)}\n\nTrained {counted(len(trained), 'time')} in {runs}. Best "
        f"success so far: {reached}.\n"
    )


def _by_task(measured: list[Measurement]) -> dict[str, list[Measurement]]:
    found: dict[str, list[Measurement]] = {}
    for one in measured:
        found.setdefault(one.tasks[0], []).append(one)
    return found


def _settings(trained: _Trained) -> str:
    """Each setting of the rung once, with the runs that had it."""
    runs: dict[str, list[str]] = {}
    for run, cycle in trained:
        rung = run.rung(cycle)
        if rung is not None:
            named = runs.setdefault(_setting(rung), [])
            named += [run.run] if run.run not in named else []
    return bullets(
        f"{setting} ({', '.join(page_link('experiment', name) for name in names)})"
        for setting, names in runs.items()
    )


def _setting(rung: Rung) -> str:
    parts = [
        f"{rung.policy_type}, {rung.steps} steps in each cycle",
        f"batches of {rung.batch_size}",
        f"learning rate {rung.learning_rate:g}",
    ]
    parts += [f"from {rung.init}"] if rung.init else []
    parts += [f"{name} = {value}" for name, value in rung.policy.items()]
    parts += [" ".join(rung.extra_args)] if rung.extra_args else []
    return escape(", ".join(parts), 1000)


def _results(measured: list[Measurement]) -> str:
    newest = measured[-MOST_ROWS:]
    rows = [
        [
            page_link("task", task),
            data_words(one),
            rate_words(one.rate),
            str(one.rate.episodes),
            where(one),
        ]
        for task, found in _by_task(newest).items()
        for one in sorted(found, key=lambda one: (one.demonstrations or 0, one.events))
    ]
    text = table(("task", "demos", "success", "episodes", "run"), rows)
    more = len(measured) - len(newest)
    return f"{text}\n\n{more} older ones are left out." if more else text


def _trainings(trained: _Trained) -> str:
    rows = []
    for _, cycle in trained[-MOST_ROWS:]:
        checkpoint, whole = cycle.checkpoint(), cycle.measured[ALL]
        if checkpoint is None:
            continue
        losses = [point.loss for point in checkpoint.curve if point.loss is not None]
        first = f"{losses[0]:.3g} → " if losses else ""
        last = "" if checkpoint.final_loss is None else f"{checkpoint.final_loss:.3g}"
        rows.append(
            [
                where(whole),
                str(cycle.steps),
                f"{first}{last}" or "not known",
                start_words(checkpoint),
                rate_words(whole.rate),
                whole.decision,
            ]
        )
    heads = ("run", "steps in all", "loss, first to last", "start", "success", "decision")
    return table(heads, rows)


def _people(trained: _Trained) -> str:
    lines = [
        f"{where(cycle.measured[ALL])}: {answer_words(row)}"
        for _, cycle in trained
        for row in cycle.approvals
    ]
    return bullets(lines) if lines else "Nobody was asked about a checkpoint of this policy."
