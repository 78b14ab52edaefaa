"""The page of one run: what was tried in each cycle, what came of it, and what people said."""

from lefleet.knowledge.drafts import (
    READ,
    Known,
    answer_words,
    attempts_words,
    file_link,
    front,
    lesson_items,
    page_link,
    page_path,
    rate_words,
    stage_path,
    start_words,
)
from lefleet.knowledge.facts import CycleFacts, RunFacts, environment
from lefleet.knowledge.front_matter import PageSource
from lefleet.knowledge.lessons import MADE, Lesson, gate_words, short
from lefleet.knowledge.markup import (
    bullets,
    clean,
    counted,
    escape,
    interval,
    listed,
    percent,
    table,
)
from lefleet.knowledge.merge import Draft

ENDED = ("finished", "stopped", "failed")
"""States in which a run has its plots."""
_MOST_NAMES = 8
"""Tasks, films or failed attempts of a cycle that are listed."""
_MOST_CYCLES = 10
"""Columns of the table of tasks: the newest cycles."""


def experiment_draft(known: Known, run: RunFacts) -> Draft | None:
    """None where nothing has happened yet that a page could stand on."""
    provenance = [
        PageSource(run=run.run, cycle=cycle.index, events=cycle.event_ids)
        for cycle in run.cycles
        if cycle.event_ids
    ]
    if not provenance:
        return None
    told = [
        one for one in known.lessons if any(pair.after.run == run.run for pair in one.comparisons)
    ]
    fields = front(
        "experiment",
        run.run,
        told,
        provenance,
        known,
        state=run.state,
        tasks=[clean(task) for task in run.tasks()],
    )
    sections = {
        "summary": _summary(run),
        "lessons": f"## What was learned\n\n{_lessons(run, told)}\n",
        "cycles": _cycles(run),
        "people": _people(run),
        "next": f"## Next step\n\n{bullets(_next(run))}\n",
        "files": _files(run),
    }
    return Draft(page_path("experiment", run.run), fields, sections)


def _summary(run: RunFacts) -> str:
    reason = f": {escape(run.reason)}" if run.reason else ""
    lines = [f"# Run {escape(run.run)}", "", f"{escape(run.state.capitalize())}{reason}."]
    tasks = [page_link("task", task) for task in run.tasks()]
    if tasks:
        lines.append(f"{'Tasks' if len(tasks) > 1 else 'Task'}: {', '.join(tasks)}.")
    policies = dict.fromkeys(rung.name for c in run.cycles if (rung := run.rung(c)))
    if policies:
        lines.append(f"Policy: {', '.join(page_link('policy', name) for name in policies)}.")
    lines.append(f"Evaluated in {escape(environment(run.config))}, seed {run.config.seed}.")
    if run.origin:
        origin = page_link("experiment", run.origin.run)
        lines.append(f"Started from cycle {run.origin.cycle} of {origin}.")
    lines += ["", _result(run)]
    rates = [percent(e.result.overall.rate) for c in run.cycles if (e := c.evaluation())]
    if len(rates) > 1:
        lines.append(f"Success over the cycles: {' → '.join(rates)}.")
    if _has_plots(run):
        lines += ["", f"!{file_link(f'{run.run}/success.png', 'success over the cycles')}"]
    return "\n".join(lines) + "\n"


def _result(run: RunFacts) -> str:
    decided = [one.decision for one in run.cycles if one.decision]
    blessed = decided[-1].blessed if decided else ""
    cycle = run.of_checkpoint(blessed) if blessed else None
    evaluation = cycle.evaluation() if cycle else None
    if not blessed:
        return "**No checkpoint is blessed yet.**"
    if cycle is None or evaluation is None:
        return f"**The blessed checkpoint is that of the run it started from**, `{blessed[:12]}`."
    overall = evaluation.result.overall
    return (
        f"**The blessed checkpoint is that of cycle {cycle.index}: {percent(overall.rate)} of "
        f"{overall.episodes} episodes** (95 % interval {interval(overall.interval)} %), digest "
        f"`{blessed[:12]}`."
    )


def _cycles(run: RunFacts) -> str:
    evaluated = [cycle for cycle in run.cycles if cycle.evaluation()]
    text = "## What was tried\n\n"
    if evaluated:
        columns = ("cycle", "episodes", "training", "success", "decision")
        text += table(columns, (_row(run, cycle) for cycle in evaluated))
        text += "\n\nSuccess in the fixed block, with its exact 95 % interval; the seeds are the "
        text += "same in every cycle.\n\n"
        shown = evaluated[-_MOST_CYCLES:]
        heads = ("task", *(f"cycle {cycle.index}" for cycle in shown))
        text += table(
            heads, ([page_link("task", task), *_of_task(task, shown)] for task in run.tasks())
        )
        text += "\n"
    for cycle in run.cycles:
        title = cycle.decision.decision if cycle.decision else "under way"
        text += f"\n### Cycle {cycle.index}: {title}\n\n{bullets(_told(run, cycle))}\n"
    return text


def _row(run: RunFacts, cycle: CycleFacts) -> list[str]:
    data, checkpoint, evaluation = cycle.dataset(), cycle.checkpoint(), cycle.evaluation()
    rung = run.rung(cycle)
    loss = f", loss {checkpoint.final_loss:.3g}" if checkpoint and checkpoint.final_loss else ""
    return [
        str(cycle.index),
        str(len(data.episodes)) if data else "",
        f"{escape(rung.name) if rung else ''} {cycle.steps} steps{loss}",
        rate_words(evaluation.result.overall) if evaluation else "",
        cycle.decision.decision if cycle.decision else "",
    ]


def _of_task(task: str, cycles: list[CycleFacts]) -> list[str]:
    rates = [e.result.per_task.get(task) if (e := c.evaluation()) else None for c in cycles]
    return [rate_words(rate) if rate else "" for rate in rates]


def _told(run: RunFacts, cycle: CycleFacts) -> list[str]:
    """What happened in a cycle, one line each."""
    lines = []
    if cycle.proposal and cycle.proposal.why:
        lines.append(f"Proposed by {escape(cycle.proposal.source)}: {escape(cycle.proposal.why)}")
    if data := cycle.dataset():
        lines.append(_data_line(cycle))
        lines += [
            f"{escape(task)} took the expert {attempts_words(tally)}."
            for task, tally in data.tallies.items()
            if tally.kept < tally.attempted
        ]
    if checkpoint := cycle.checkpoint():
        steps = f"Trained {checkpoint.steps} steps {start_words(checkpoint)}"
        lines.append(f"{steps}: `{checkpoint.digest[:12]}`.")
    if gate := cycle.gate():
        words = gate_words(gate)
        low, high = (100 * limit for limit in gate.gate.interval)
        lines.append(
            f"{words[0].upper()}{words[1:]}; difference {100 * gate.gate.difference:+.0f} points "
            f"(95 % confidence sequence {low:+.0f} to {high:+.0f})."
        )
    if decision := cycle.decision:
        lines.append(f"Decision: **{decision.decision}**, {escape(decision.why, 600)}")
        lines += [f"Diagnosis, {escape(line)}" for line in decision.diagnosis]
    lines += [f"Asked a person: {answer_words(row)}" for row in cycle.approvals]
    lines += [
        f"Denied by the constitution: {escape(', '.join(map(str, one.values())), 600)}"
        for one in cycle.denials
    ]
    if mix := cycle.mix():
        added = sum(mix.added.values())
        kept = sum(tally.kept for tally in mix.tallies.values())
        tried = sum(tally.attempted for tally in mix.tallies.values())
        note = f" {escape(mix.note)}" if mix.note else ""
        lines.append(
            f"The blessed policy made data: {kept} of {tried} attempts kept, {added} "
            f"{MADE.get(mix.method, mix.method)} added.{note}"
        )
    lines += [
        f"{one.stage}, attempt {one.attempt} {one.state}: {escape(one.error)}"
        for one in cycle.troubles[-_MOST_NAMES:]
    ]
    return [*lines, _evidence(run, cycle)]


def _data_line(cycle: CycleFacts) -> str:
    data = cycle.dataset()
    if data is None:
        return ""
    counts = set(data.tasks.values())
    if len(data.tasks) > _MOST_NAMES and len(counts) == 1:
        tasks = f"{counts.pop()} of each of {len(data.tasks)} tasks"
    else:
        tasks = listed([f"{count} of “{escape(text)}”" for text, count in data.tasks.items()])
    new = f", {data.added.episodes} of them new" if data.added else ""
    return f"Data: {counted(len(data.episodes), 'episode')}{new}: {tasks}."


def _evidence(run: RunFacts, cycle: CycleFacts) -> str:
    links = [
        file_link(f"{stage_path(run.run, cycle.index, stage)}/record.json", stage)
        for stage in cycle.records
    ]
    if cycle.gate() and _has_plots(run):
        links.append(file_link(f"{run.run}/evidence_cycle_{cycle.index}.png", "plot of the gate"))
    films = list(dict.fromkeys(film for one in cycle.measured.values() for film in one.films))
    links += [
        file_link(film.path, f"film of {film.task} ({'success' if film.success else 'failure'})")
        for film in films[:_MOST_NAMES]
    ]
    if len(films) > _MOST_NAMES:
        videos = f"{stage_path(run.run, cycle.index, 'evaluate')}/videos"
        links.append(file_link(videos, f"{len(films)} films in all"))
    events = ", ".join(map(str, cycle.event_ids))
    links.append(f"events {events} in {file_link(f'{run.run}/events.jsonl', 'events.jsonl')}")
    return f"Evidence: {', '.join(links)}."


def _lessons(run: RunFacts, told: list[Lesson]) -> str:
    """Those about all tasks in full; those about one of several in one line for each task."""
    whole = [one for one in told if one.comparisons[0].is_whole]
    text = lesson_items(whole, run.run)
    lines = []
    for task in run.tasks():
        found = [
            pair
            for one in told
            for pair in one.comparisons
            if pair.after.run == run.run and pair.after.tasks == (task,) and not pair.is_whole
        ]
        if found:
            numbers = "; ".join(dict.fromkeys(escape(short(pair)) for pair in found))
            lines.append(f"{page_link('task', task)}: {numbers}")
    if lines:
        text += f"\n\nBy task, each with its exact p-value, not adjusted:\n\n{bullets(lines)}"
    return f"{text}\n\n{READ}"


def _people(run: RunFacts) -> str:
    asked = [(cycle.index, row) for cycle in run.cycles for row in cycle.approvals]
    lines = [f"Cycle {index}: {answer_words(row)}" for index, row in asked]
    empty = "Nobody was asked: this run needed no approval."
    return f"## What people decided\n\n{bullets(lines) if lines else empty}\n"


def _files(run: RunFacts) -> str:
    links = [file_link(run.run, f"{run.run}/"), file_link(f"{run.run}/events.jsonl")]
    if run.state in ENDED:
        links += [file_link(f"{run.run}/{name}") for name in ("summary.json", "tasks.csv")]
    checkpoints = [
        f"Checkpoint of cycle {cycle.index}: "
        + file_link(stage_path(run.run, cycle.index, "train"))
        for cycle in run.cycles
        if cycle.checkpoint()
    ]
    data = [
        f"Data of cycle {cycle.index}: {file_link(stage_path(run.run, cycle.index, 'collect'))}"
        for cycle in run.cycles
        if cycle.dataset()
    ]
    return f"## Where the files are\n\n{bullets([*links, *data, *checkpoints])}\n"


def _next(run: RunFacts) -> list[str]:
    open_questions = [row for cycle in run.cycles for row in cycle.approvals if row.is_open]
    decided = [one.decision for one in run.cycles if one.decision]
    last = decided[-1] if decided else None
    name = clean(run.run)
    if open_questions:
        return [
            f"A person is asked: {escape(row.text)} `lefleet approve {name}`, or "
            f"`lefleet reject {name} --why REASON`."
            for row in open_questions
        ]
    if run.state == "running":
        return ["The run continues by itself."]
    if run.state in ("failed", "denied"):
        return [f"Remove the cause ({escape(run.reason)}), then: `lefleet resume {name}`."]
    is_useless = last is not None and not last.blessed
    why = [f"Why nothing works yet: {file_link(f'{run.run}/diagnosis.md')}"] if is_useless else []
    if run.state == "stopped":
        return [*why, f"Continue it: `lefleet resume {name}`."]
    if last is None or is_useless:
        return [*why, "Check data, loss and horizon before you try a bigger policy."]
    further = f"`lefleet resume {name} --budgets.cycles={run.config.budgets.cycles + 2}`"
    again = f"`lefleet run -c FILE --name={name}-2 --seed={run.config.seed + 1}`"
    return [
        f"Continue it: {further}",
        f"See whether it holds with another seed: {again}",
        f"Watch the blessed checkpoint: `lefleet try {name}`",
    ]


def _has_plots(run: RunFacts) -> bool:
    return run.state in ENDED and any(cycle.evaluation() for cycle in run.cycles)
