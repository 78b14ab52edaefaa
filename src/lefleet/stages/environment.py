"""Where the episodes of a stage run: LeFleet's simulation, or a LeRobot environment.

What such an environment offers is written to the stage's folder when the stage begins: a resumed
stage, films and the dashboard work with the same tasks, without making the environment again.
"""

from pathlib import Path
from typing import Any

import msgspec

from lefleet.durable import write_durably
from lefleet.errors import BadInput, StageFailed
from lefleet.records import CompareRequest, EpisodeRecord, EvaluateRequest, decode, encode
from lefleet.rollouts import EnvironmentDescription
from lefleet.sim.tasks import resolve_tasks
from lefleet.stages.cameras import require_rendering
from lefleet.stages.contract import DataLayout, require_simulable
from lefleet.stages.extras import require_environment
from lefleet.stages.folder import (
    ENVIRONMENT,
    Journal,
    StageFolder,
    start_anew,
)
from lefleet.stages.progress import Progress, Update
from lefleet.stages.references import CheckpointReference, made_by, renames_inputs

MAKING = Update.phase("making the environment")


def begin_environment(
    env: dict[str, str], stage: StageFolder, progress: Progress
) -> EnvironmentDescription | None:
    """The environment of these flags, as it was when the stage began; None for LeFleet's own."""
    if not env:
        return None
    file = stage.path / ENVIRONMENT
    if not file.exists():
        require_environment(env.get("type", ""), "env.type")
        progress(MAKING)
        from lefleet.rollouts.environments import describe_environment

        write_durably(file, encode(describe_environment(env)))
    return _read(file)


def episode_tasks(
    request: EvaluateRequest | CompareRequest, environment: EnvironmentDescription | None
) -> tuple[str, ...]:
    """The tasks of a stage's episodes, in order. An environment has its own."""
    return tuple(environment.tasks) if environment else simulated_tasks(request)


def simulated_tasks(request: EvaluateRequest | CompareRequest) -> tuple[str, ...]:
    """The MetaWorld tasks that are named; BadInput about `env` where they are somebody's own."""
    return resolve_tasks(
        request.tasks,
        "Tasks of your own need the LeRobot environment that has them: --env type NAME, for "
        "instance --env type pusht.",
    )


def begun_tasks(request: EvaluateRequest | CompareRequest, folder: Path) -> tuple[str, ...]:
    """The same of a stage that has begun in `folder`; BadInput where it does not say."""
    if not request.env:
        return resolve_tasks(request.tasks)
    file = folder / ENVIRONMENT
    if not file.exists():
        raise BadInput(
            f"env: {folder} has no {ENVIRONMENT}: lerobot-eval ran its episodes, for an older "
            "version of LeFleet.",
            "Only episodes that LeFleet ran itself can be run again.",
        )
    return tuple(_read(file).tasks)


def require_runnable(
    checkpoint: CheckpointReference, field: str, environment: EnvironmentDescription | None
) -> None:
    """Raise BadInput naming what the policy wants and its episodes would not have."""
    if environment is None:
        require_rendering(require_simulable(checkpoint, field), field)
        return
    folder = Path(checkpoint.path)
    config = msgspec.json.decode((folder / "config.json").read_bytes())
    outputs, inputs = config.get("output_features") or {}, config.get("input_features") or {}
    made = made_by(folder)
    wanted = {"action": outputs.get("action"), **{k: inputs[k] for k in inputs if k not in made}}
    offered: dict[str, tuple[int, ...]] = {
        "action": (environment.action,),
        **environment.observations,
    }
    for key, feature in wanted.items():
        # Policies resize images, and LeRobot itself checks their names.
        if feature is None or feature["type"] == "VISUAL":
            continue
        if key not in offered and renames_inputs(folder):
            continue
        if offered.get(key) != tuple(feature["shape"]):
            has = f"has {list(offered[key])}" if key in offered else "does not have it"
            raise BadInput(
                f"{field}: the policy's {key} has shape {feature['shape']}, the environment "
                f"{environment.type} {has}.",
                f"It has {_listed(offered)}. Use a policy that was trained on its data, or other "
                "flags of the environment.",
            )


def layout_of(environment: EnvironmentDescription) -> DataLayout:
    """How its episodes lie in a dataset."""
    vectors = {"action": (environment.action,), **environment.observations}
    features = {
        key: _image(shape) if len(shape) == 3 else _vector(shape, environment.columns.get(key))
        for key, shape in vectors.items()
    }
    return DataLayout(
        features,
        environment.fps,
        environment.type,
        lambda task: environment.tasks[task] or task,
    )


def _image(shape: tuple[int, ...]) -> dict[str, Any]:
    channels, height, width = shape
    names = ["height", "width", "channels"]
    return {"dtype": "video", "shape": (height, width, channels), "names": names}


def _vector(shape: tuple[int, ...], columns: tuple[str, ...] | None) -> dict[str, Any]:
    return {"dtype": "float32", "shape": shape, "names": list(columns) if columns else None}


def require_own_episodes(journal: Journal, stage: StageFolder) -> None:
    """Raise StageFailed where lerobot-eval ran some of them, whose initial states are unknown."""
    lines: list[EpisodeRecord] = journal.lines
    if any(not line.length for line in lines):
        raise StageFailed(
            "An older version of LeFleet began this stage, with lerobot-eval.",
            f"To run all of them here, {start_anew(stage.path)}",
        )


def _read(file: Path) -> EnvironmentDescription:
    described: EnvironmentDescription = decode(file.read_bytes(), EnvironmentDescription, str(file))
    return described


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{key} {list(shape)}" for key, shape in shapes.items())
