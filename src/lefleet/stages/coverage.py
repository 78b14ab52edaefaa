"""The coverage gate: a policy is not trained on data that lacks the tasks it will be judged on."""

from collections.abc import Iterable, Mapping

from lefleet.errors import BadInput
from lefleet.sim.tasks import BY_INSTRUCTION, TASK_SETS, TASKS


def task_text(task: str) -> str:
    """The text that stands for `task` in a dataset: the instruction of a MetaWorld task."""
    known = TASKS.get(task.removesuffix("-v3"))
    return known.instruction if known else task


def wanted_texts(tasks: Iterable[str]) -> tuple[str, ...]:
    """Task texts for names, task sets, or texts of the dataset's own."""
    names = [member for task in tasks for member in TASK_SETS.get(task.lower(), (task,))]
    return tuple(dict.fromkeys(task_text(name) for name in names))


def task_name(text: str) -> str:
    """The short name of a dataset's task text."""
    return BY_INSTRUCTION.get(text, text)


def require_coverage(available: Mapping[str, int], wanted: Iterable[str], where: str) -> None:
    """Raise BadInput naming the tasks of `wanted` that `available` (episodes by text) lacks."""
    missing = [task_name(text) for text in wanted_texts(wanted) if not available.get(text)]
    if not missing:
        return
    present = ", ".join(f"{task_name(text)} ({count})" for text, count in available.items())
    raise BadInput(
        f"tasks: {where} has no episode of {', '.join(missing)}.",
        f"It has {present or 'no episodes'}. Collect the missing tasks, or leave them out.",
    )
