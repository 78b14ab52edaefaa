"""What LeRobot 0.6.1's lerobot-eval says of every episode, in its eval_info.json.

The file has successes and rewards by task, and no seeds: episode i of every task ran with the
program's --seed plus i.
"""

import json
from pathlib import Path
from typing import NamedTuple

import msgspec

from lefleet.errors import BadInput
from lefleet.records.fields import Metric

EVAL_INFO = "eval_info.json"

_REMEDY = "Run lerobot-eval of LeRobot 0.6.1 again, for one or more episodes of every task."


class EpisodeOutcome(NamedTuple):
    """One episode."""

    success: bool
    reward: float
    """The largest of all steps."""

    @property
    def progress(self) -> float:
        """From 0 to 1; 1 for a success only."""
        return 1.0 if self.success else min(max(0.0, self.reward), 0.99)


class _Metrics(msgspec.Struct):
    successes: list[bool]
    max_rewards: list[float]


class _Task(msgspec.Struct):
    task_group: str
    task_id: int
    metrics: _Metrics


class _EvalInfo(msgspec.Struct):
    per_task: list[_Task]


def parse_eval_info(content: bytes) -> dict[str, list[EpisodeOutcome]]:
    """Episodes by task, in the order of running; ValueError for any other content."""
    # Not msgspec's own parser: averages of nothing are NaN there, which is JSON for Python only.
    found = json.loads(content)
    try:
        info = msgspec.convert(found, _EvalInfo)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    tasks: dict[str, list[EpisodeOutcome]] = {}
    for task in info.per_task:
        name, metrics = f"{task.task_group}-{task.task_id}", task.metrics
        if name in tasks:
            raise ValueError(f"it has the task {name} twice")
        if len(metrics.successes) != len(metrics.max_rewards):
            raise ValueError(
                f"it has {len(metrics.successes)} successes and {len(metrics.max_rewards)} "
                f"rewards of {name}"
            )
        outcomes = zip(metrics.successes, metrics.max_rewards, strict=True)
        tasks[name] = [EpisodeOutcome(*outcome) for outcome in outcomes]
    return tasks


def read_eval_info(path: Path, metric: Metric) -> dict[str, list[EpisodeOutcome]]:
    """A user's file; BadInput where it is not one, or where its rewards cannot be progress."""
    try:
        tasks = parse_eval_info(path.read_bytes())
    except OSError as error:
        raise BadInput(f"from: {path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"from: {path} is not an {EVAL_INFO} of LeRobot 0.6.1: {error}.",
            f"{_REMEDY} Or write the outcomes into a CSV file: trial, policy, success.",
        ) from error
    empty = [name for name, episodes in tasks.items() if not episodes]
    if empty or not tasks:
        raise BadInput(f"from: {path} has no episode{f' of {empty[0]}' if empty else ''}.", _REMEDY)
    if metric == "progress":
        _require_progress(path, tasks)
    return tasks


def _require_progress(path: Path, tasks: dict[str, list[EpisodeOutcome]]) -> None:
    for name, episodes in tasks.items():
        for number, episode in enumerate(episodes):
            if not (episode.success or 0.0 <= episode.reward <= 1.0):
                raise BadInput(
                    f"metric: the largest reward of episode {number} of {name} in {path} is "
                    f"{episode.reward:.3g}, and progress must lie between 0 and 1.",
                    "Leave --metric progress out: this reward does not measure progress.",
                )
