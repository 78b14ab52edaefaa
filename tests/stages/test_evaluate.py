"""Rates and summaries of an evaluation."""

from lefleet.stages.evaluate import rate, summarise
from lefleet.stages.references import CheckpointReference
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
