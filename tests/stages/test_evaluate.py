"""Rates, summaries and pairs of an evaluation."""

import pytest

from lefleet.records import PairCounts
from lefleet.stages.evaluate import count_pairs, rate, summarise
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


def test_pairs_are_counted_by_who_succeeded():
    ours = episodes("push", "ssssfff")
    theirs = episodes("push", "sfffssf", policy="baseline")
    assert count_pairs(ours, theirs) == PairCounts(
        both=1, only_candidate=3, only_baseline=2, neither=1
    )


def test_pairs_meet_on_task_and_seed_in_whatever_order_they_ran():
    ours = [*episodes("push", "sf"), *episodes("reach", "fs")]
    theirs = [*episodes("reach", "ff"), *episodes("push", "sf")][::-1]
    assert count_pairs(ours, theirs) == PairCounts(
        both=1, only_candidate=1, only_baseline=0, neither=2
    )


def test_an_episode_without_its_partner_is_an_error():
    with pytest.raises(KeyError):
        count_pairs(episodes("push", "ss"), episodes("push", "s"))
