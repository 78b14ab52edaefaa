"""Rates and summaries of an evaluation, and what becomes of it when files change."""

import re
import shutil

import pytest

from lefleet.errors import StageFailed
from lefleet.records import EvaluateRequest
from lefleet.stages import run_stage
from lefleet.stages.evaluate import rate, summarise
from lefleet.stages.gather import file_name
from lefleet.stages.references import CheckpointReference, find_checkpoint
from lefleet.stats import exact_interval
from tests.samples import episode

CHECKPOINT = CheckpointReference("/c/pretrained_model", "digest")


def episodes(task: str, outcomes: str, **changes):
    """One episode per letter, from seed 0 on: s for success, f for failure."""
    return [
        episode(task, seed, success=letter == "s", **changes)
        for seed, letter in enumerate(outcomes)
    ]


def test_a_rate_counts_successes_and_carries_the_exact_interval():
    found = rate(episodes("push", "ssfs"))
    assert (found.successes, found.episodes, found.rate) == (3, 4, 0.75)
    assert found.interval == exact_interval(3, 4)


def test_a_summary_has_a_rate_for_all_and_one_for_each_task():
    found = summarise(
        CHECKPOINT, ("push", "reach"), [*episodes("push", "sf"), *episodes("reach", "ff")]
    )
    assert (found.checkpoint, found.digest) == CHECKPOINT
    assert (found.overall.successes, found.overall.episodes) == (1, 4)
    assert {task: one.successes for task, one in found.per_task.items()} == {"push": 1, "reach": 0}
    assert {one.episodes for one in found.per_task.values()} == {2}


def test_a_summary_averages_progress_and_length():
    found = summarise(
        CHECKPOINT,
        ("push",),
        [
            episode("push", 0, progress=0.25, length=10),
            episode("push", 1, progress=1.0, length=25),
        ],
    )
    assert found.mean_progress == 0.625
    assert found.mean_length == 17.5


def test_episodes_of_a_checkpoint_that_changed_meanwhile_are_not_kept(checkpoint, tmp_path):
    copied = tmp_path / "model"
    shutil.copytree(find_checkpoint(str(checkpoint), "checkpoint").path, copied)
    weights = copied / "model.safetensors"
    before = weights.read_bytes()
    request = EvaluateRequest(
        checkpoint=str(copied),
        tasks=("push",),
        episodes_per_task=1,
        episode_length=2,
        videos_per_task=0,
    )

    def change_it(update):
        if update.unit == "episodes":
            weights.write_bytes(b"new")

    with pytest.raises(StageFailed, match="checkpoint: its content has changed"):
        run_stage(request, tmp_path / "evaluate", change_it)
    assert not (tmp_path / "evaluate" / "record.json").exists()
    assert (tmp_path / "evaluate" / "episodes.jsonl").read_bytes() == b""
    weights.write_bytes(before)
    assert run_stage(request, tmp_path / "evaluate").result.overall.successes == 0


@pytest.mark.parametrize("task", ["../../etc", "put the mug\non the plate", ".", "x" * 300, "ä"])
def test_any_task_has_a_name_for_files(task):
    name = file_name(task)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,80}", name)
    assert name != file_name(task + "!")


def test_a_plain_name_of_a_task_names_its_files():
    assert file_name("button-press.v2") == "button-press.v2"
