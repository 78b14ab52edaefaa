"""Whether an existing dataset suffices for a run, as far as that is known before it begins."""

from pathlib import Path

from lefleet.errors import BadInput
from lefleet.loop.requests import selection
from lefleet.records import DatasetSource, RunConfig
from lefleet.stages.contract import is_simulated, task_name
from lefleet.stages.selection import episodes_by_text, read_texts


def require_data(config: RunConfig) -> None:
    """Raise BadInput where a local dataset lacks what a cycle of this run will ask of it, or is of
    a robot that the run has no environment for. Of a dataset on the hub nothing is known here: its
    first collect stage checks the whole schedule, before anything is trained."""
    source = config.collect
    if not isinstance(source, DatasetSource) or not source.root:
        return
    try:
        texts, info = read_texts(Path(source.root))
        by_text = episodes_by_text(texts, info, selection(config, source, 0))
    except BadInput as error:
        raise BadInput(f"collect.{error.problem}", error.remedy) from error
    if not config.evaluate.env and not is_simulated(info):
        raise BadInput(
            f"evaluate.env: {source.root} is data of {info.get('robot_type') or 'another robot'}, "
            "and without an environment a run evaluates in LeFleet's MetaWorld.",
            "Name the LeRobot environment of these tasks, for instance --evaluate.env.type=pusht.",
        )
    rarest = min(by_text, key=lambda text: len(by_text[text]))
    least = len(by_text[rarest])
    for cycle in range(config.budgets.cycles):
        asked = selection(config, source, cycle).episodes_per_task
        if asked > least:
            fewer = f" Or end before: --budgets.cycles={cycle}" if cycle else ""
            raise BadInput(
                f"collect.episodes_per_task: cycle {cycle} asks for {asked}, but "
                f"{task_name(rarest, info)} has only {least}.",
                f"Ask for at most {least}.{fewer}",
            )
