"""What a diagnosis judges, read from the records and files of one cycle.

It reads JSON, Parquet and safetensors without torch and without LeRobot, and in one thread, as a
controller that is forked must have no other. A file that is missing or broken leaves its part
unknown: a diagnosis must not end a run.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from lefleet.loop.state import CycleState, RunState
from lefleet.records import CheckpointRecord, DatasetRecord, PolicyResult
from lefleet.sim.tasks import TASKS, Task

ACTION = "action"
OWN_ENV = "lefleet_metaworld"
_NUMBER = re.compile(r"-\d+$")
_MOST_FRAMES = 300_000
"""Of the data that is read: enough to judge it, and done in a second."""
_BROKEN = (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, ImportError)
"""What reading a file that another program wrote, or that is not there, may raise."""


class Column(NamedTuple):
    """Statistics of one number of a vector over all frames."""

    name: str
    low: float
    high: float
    mean: float
    std: float
    q01: float | None = None
    q99: float | None = None


class TaskData(NamedTuple):
    """The demonstrations of one task."""

    episodes: int
    lengths: tuple[int, ...] = ()
    """Steps of each; empty where they are not known."""
    starts: int | None = None
    """Different first observations; None where they are not known."""


class PolicyFacts(NamedTuple):
    """What the config and the processors of a checkpoint say."""

    chunk_size: int | None = None
    n_action_steps: int | None = None
    kinds: Mapping[str, str] = {}
    """STATE, ENV, ACTION, … by feature."""
    modes: Mapping[str, str] = {}
    """IDENTITY, MEAN_STD, … by kind of feature; what has none is not normalised."""
    saved: Mapping[str, tuple[Column, ...]] = {}
    """Statistics that the processors normalise with, by feature."""
    has_plain_error: bool = False
    """Whether the loss is the mean absolute error of normalised actions."""


class RecordedActions(NamedTuple):
    """What the frames themselves say, whatever the statistics beside them do."""

    columns: tuple[Column, ...]
    at_limit: float
    """Share of all values that are the smallest or largest of their column."""
    constant_error: float
    """Mean absolute error of the best policy that always does the same."""
    is_all: bool
    """Whether these are all frames that the statistics were made of."""


class Measurements(NamedTuple):
    """One cycle of a run, as far as it is known."""

    data: Mapping[str, TaskData]
    """By task text."""
    texts: Mapping[str, str]
    """Task text by evaluated task, where it is known which text stands for it."""
    evaluated: tuple[str, ...]
    limits: Mapping[str, int]
    """Steps after which an episode is cut off, by evaluated task, where it is known."""
    result: PolicyResult
    frames: int
    fps: int
    vectors: Mapping[str, tuple[Column, ...]]
    """Statistics beside the data, by feature: LeRobot normalises with them."""
    action_range: tuple[float, float] | None
    """What the environment executes; it clips the rest. None where it is not known."""
    actions: RecordedActions | None
    """None where the frames cannot be read."""
    policy: PolicyFacts
    policy_type: str
    is_fresh: bool
    """Whether the training started from scratch."""
    steps: int
    batch_size: int
    losses: tuple[float | None, ...]
    """Of the training, in order; None where one was not a number."""


def measure(state: RunState, cycle: CycleState) -> Measurements | None:
    """Everything that is known about a cycle; None where it was not evaluated."""
    dataset, checkpoint, evaluation = cycle.dataset(), cycle.checkpoint(), cycle.evaluation()
    if dataset is None or checkpoint is None or evaluation is None:
        return None
    rung = cycle.decision.rung if cycle.decision else state.rung()
    names = {ACTION: checkpoint.contract.action_names, **checkpoint.contract.vectors}
    frames = _Frames.read(dataset, names[ACTION])
    result = evaluation.result
    return Measurements(
        data=_data(dataset, frames),
        texts={
            task: text
            for task in result.per_task
            if (text := _text(task, dataset, state.config.evaluate.env))
        },
        evaluated=tuple(result.per_task),
        limits=_limits(state.config.evaluate.env, tuple(result.per_task)),
        result=result,
        frames=dataset.frames,
        fps=dataset.fps,
        vectors=_statistics(Path(dataset.root) / "meta" / "stats.json", names),
        action_range=(-1.0, 1.0) if _is_own(state.config.evaluate.env) else None,
        actions=frames.actions,
        policy=_policy(checkpoint, names),
        policy_type=checkpoint.policy_type,
        is_fresh=not checkpoint.init_digest,
        steps=checkpoint.steps,
        batch_size=state.config.ladder[rung].batch_size,
        losses=tuple(point.loss for point in checkpoint.curve),
    )


def _is_own(env: Mapping[str, str]) -> bool:
    return not env or env.get("type") == OWN_ENV


def _text(task: str, dataset: DatasetRecord, env: Mapping[str, str]) -> str:
    """The text that stands for an evaluated task; empty where that is not known."""
    known = _known(task) if _is_own(env) else None
    text = known.instruction if known else task
    return text if known or text in dataset.tasks else ""


def _known(task: str) -> Task | None:
    """A task of our simulation; lerobot-eval puts a number behind its name."""
    return TASKS.get(task) or TASKS.get(_NUMBER.sub("", task))


def _limits(env: Mapping[str, str], tasks: tuple[str, ...]) -> dict[str, int]:
    if (given := env.get("episode_length", "")).isdigit():
        return dict.fromkeys(tasks, int(given))
    if not _is_own(env):
        return {}
    return {task: known.horizon for task in tasks if (known := _known(task))}


def _statistics(file: Path, names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[Column, ...]]:
    """Of the vectors in `names`, as LeRobot computed them for the whole dataset."""
    found: dict[str, tuple[Column, ...]] = {}
    with suppress(*_BROKEN):
        every = json.loads(file.read_bytes())
        for key, columns in names.items():
            with suppress(*_BROKEN):
                found[key] = _columns(every[key], columns)
    return {key: columns for key, columns in found.items() if columns}


def _columns(statistics: Mapping[str, Any], names: tuple[str, ...]) -> tuple[Column, ...]:
    def values(name: str) -> list[float | None]:
        given = statistics.get(name)
        return [None] * len(names) if given is None else [float(one) for one in given]

    required = [[float(one) for one in statistics[name]] for name in ("min", "max", "mean", "std")]
    quantiles = [values("q01"), values("q99")]
    return tuple(Column(*row) for row in zip(names, *required, *quantiles, strict=True))


class _Frames(NamedTuple):
    """What only the frames themselves can tell."""

    lengths: Mapping[int, int] = {}
    """Steps by episode."""
    tasks: Mapping[int, str] = {}
    """Task text by episode."""
    starts: Mapping[int, bytes] = {}
    """First observation by episode; none where the data has images only."""
    actions: RecordedActions | None = None

    @classmethod
    def read(cls, dataset: DatasetRecord, names: tuple[str, ...]) -> "_Frames":
        """Of the episodes in use. Large datasets are read from their beginning on."""
        root, used = Path(dataset.root), set(dataset.episodes)
        lengths: dict[int, int] = {}
        tasks: dict[int, str] = {}
        with suppress(*_BROKEN):
            for part in _tables(root / "meta" / "episodes", ("episode_index", "length", "tasks")):
                for row in part.to_pylist():
                    if (number := row["episode_index"]) in used:
                        lengths[number], tasks[number] = row["length"], row["tasks"][0]
        try:
            starts, values = _read_frames(root / "data", used)
            is_all = len(values) == dataset.frames and len(used) == dataset.total_episodes
            return cls(lengths, tasks, starts, _recorded(values, names, is_all=is_all))
        except _BROKEN:
            return cls(lengths, tasks)


def _read_frames(folder: Path, used: set[int]) -> tuple[dict[int, bytes], Any]:
    """First observations by episode, and all actions."""
    import numpy as np

    actions, starts = [], {}
    columns = (ACTION, "episode_index", "frame_index", "observation.*")
    for part in _tables(folder, columns, _MOST_FRAMES):
        episodes = part.column("episode_index").to_numpy()
        actions.append(_matrix(part, ACTION)[np.isin(episodes, list(used))])
        observed = [name for name in part.column_names if name.startswith("observation.")]
        vectors = [_matrix(part, name) for name in observed]
        for row in np.flatnonzero(part.column("frame_index").to_numpy() == 0) if vectors else ():
            if (number := int(episodes[row])) in used:
                starts[number] = b"".join(vector[row].tobytes() for vector in vectors)
    return starts, np.concatenate(actions)


def _recorded(values: Any, names: tuple[str, ...], *, is_all: bool) -> RecordedActions:
    import numpy as np

    low, high = values.min(0), values.max(0)
    rows = (low, high, values.mean(0), values.std(0))
    return RecordedActions(
        tuple(Column(name, *map(float, row)) for name, *row in zip(names, *rows, strict=True)),
        at_limit=float(((values == low) | (values == high)).mean()),
        constant_error=float(np.abs(values - np.median(values, 0)).mean()),
        is_all=is_all,
    )


def _matrix(part: Any, name: str) -> Any:
    """A column of vectors, one row per frame."""
    flat = part.column(name).combine_chunks()
    flat = flat.flatten() if hasattr(flat, "flatten") else flat
    return flat.to_numpy(zero_copy_only=False).reshape(part.num_rows, -1)


def _tables(folder: Path, columns: tuple[str, ...], most: int = 0) -> Iterator[Any]:
    """Row groups of all Parquet files in a folder, up to `most` rows, without images."""
    import pyarrow.parquet as pq

    rows = 0
    for file in sorted(folder.rglob("*.parquet")):
        # With a buffer Arrow would start threads, also where it is told to use none.
        with pq.ParquetFile(file, pre_buffer=False) as parquet:
            names = [
                field.name
                for field in parquet.schema_arrow
                if any(fnmatch(field.name, pattern) for pattern in columns) and not _is_image(field)
            ]
            for number in range(parquet.num_row_groups):
                part = parquet.read_row_group(number, columns=names, use_threads=False)
                yield part
                rows += part.num_rows
                if most and rows >= most:
                    return


def _is_image(field: Any) -> bool:
    return str(field.type).startswith("struct")


def _data(dataset: DatasetRecord, frames: _Frames) -> dict[str, TaskData]:
    lengths: defaultdict[str, list[int]] = defaultdict(list)
    starts: defaultdict[str, Counter[bytes]] = defaultdict(Counter)
    for number, text in frames.tasks.items():
        lengths[text].append(frames.lengths[number])
        if number in frames.starts:
            starts[text][frames.starts[number]] += 1
    return {
        text: TaskData(
            episodes, tuple(lengths[text]), len(starts[text]) if text in starts else None
        )
        for text, episodes in dataset.tasks.items()
    }


def _policy(checkpoint: CheckpointRecord, names: Mapping[str, tuple[str, ...]]) -> PolicyFacts:
    folder = Path(checkpoint.path)
    try:
        config = json.loads((folder / "config.json").read_bytes())
        features = {**config.get("input_features", {}), **config.get("output_features", {})}
        kinds = {key: str(feature["type"]) for key, feature in features.items()}
        modes = {str(kind): str(mode) for kind, mode in config["normalization_mapping"].items()}
    except _BROKEN:
        return PolicyFacts()
    return PolicyFacts(
        chunk_size=_whole(config.get("chunk_size", config.get("horizon"))),
        n_action_steps=_whole(config.get("n_action_steps")),
        kinds=kinds,
        modes=modes,
        saved=_saved(folder, names),
        has_plain_error=config.get("type") == "act" and not config.get("use_vae"),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _saved(folder: Path, names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[Column, ...]]:
    """Statistics in the state of the step that normalises."""
    found: dict[str, tuple[Column, ...]] = {}
    with suppress(*_BROKEN):
        from safetensors import SafetensorError, safe_open

        steps = json.loads((folder / "policy_preprocessor.json").read_bytes())["steps"]
        (name,) = (
            step["state_file"]
            for step in steps
            if step.get("registry_name") == "normalizer_processor"
        )
        with suppress(SafetensorError), safe_open(str(folder / name), "numpy") as tensors:
            for key, columns in names.items():
                with suppress(*_BROKEN):
                    parts = ("min", "max", "mean", "std")
                    values = {part: tensors.get_tensor(f"{key}.{part}") for part in parts}
                    found[key] = _columns(values, columns)
    return found
