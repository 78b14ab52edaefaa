"""Which episodes run, what a cell says, and how far an envelope reaches."""

import msgspec
import pytest

from lefleet.profile.cells import (
    EpisodeKey,
    delays_of,
    judge_envelope,
    keys_of,
    share_out,
    summarise,
)
from lefleet.records import ProfileRequest
from lefleet.stats import least_difference
from tests.samples import delay_cell, driven_episode, rate


def test_zero_is_always_measured_and_delays_rise():
    assert delays_of(ProfileRequest(checkpoint="c", delays=(200.0, 50.0, 200.0))) == (0, 50, 200)


def test_tasks_take_turns_on_the_same_seeds():
    request = ProfileRequest(checkpoint="c", episodes=5, seed=7)
    keys = keys_of(request, ("push", "reach"))
    assert keys == [("push", 7), ("reach", 7), ("push", 8), ("reach", 8), ("push", 9)]


@pytest.mark.parametrize(
    ("seeds", "robots", "runs"),
    [
        (range(6), 1, [(0, 6)]),
        (range(6), 2, [(0, 3), (3, 3)]),
        (range(5), 2, [(0, 3), (3, 2)]),
        (range(2), 4, [(0, 1), (1, 1)]),
        ((2, 3, 7), 1, [(2, 2), (7, 1)]),
        ((), 2, []),
    ],
)
def test_missing_episodes_are_shared_out_in_runs_of_consecutive_seeds(seeds, robots, runs):
    keys = [EpisodeKey("push", seed) for seed in seeds]
    assert [run[1:] for run in share_out(keys, robots)] == runs


def test_every_missing_episode_is_in_exactly_one_run():
    keys = [EpisodeKey(task, seed) for seed in (0, 1, 3, 4, 5, 9) for task in ("push", "reach")]
    found = [
        (run.task, run.first_seed + n) for run in share_out(keys, 3) for n in range(run.episodes)
    ]
    assert sorted(found) == sorted(keys)


def test_a_cell_counts_ticks_and_compares_with_the_same_seeds():
    outcomes = {0: (True, True), 1: (True, False), 2: (False, True), 3: (True, False)}
    before = {
        EpisodeKey("push", n): driven_episode(seed=n, success=a) for n, (a, _) in outcomes.items()
    }
    after = {
        EpisodeKey("push", n): driven_episode(
            delay_ms=50.0, seed=n, success=b, ticks=100, fallbacks=n, late=1,
            round_trips_ms=(50.0 + n, 60.0), action_age_ms=100.0 + n,
        )
        for n, (_, b) in outcomes.items()
    }  # fmt: skip
    cell = summarise(50.0, ("push", "reach"), after, before)
    assert (cell.success.successes, cell.success.episodes) == (2, 4)
    assert set(cell.per_task) == {"push"}, "a task without an episode has no rate"
    assert (cell.won, cell.lost) == (1, 2)
    assert cell.least_difference == least_difference(1, 2, 4)
    assert cell.fallback_share == 6 / 400
    assert cell.late_share == 0.01
    assert cell.round_trip_p95_ms == 60.0
    assert cell.action_age_ms == 101.5
    assert summarise(0.0, ("push",), before, before).least_difference == 0


def cells(*limits: float) -> list:
    """Cells at 0, 100, 200, … ms with these lower limits; round trips take 7 ms more."""
    return [
        delay_cell(delay_ms=100.0 * n, least_difference=limit, round_trip_p95_ms=100.0 * n + 7)
        for n, limit in enumerate((0.0, *limits))
    ]


@pytest.mark.parametrize(
    ("limits", "margin", "delay_ms", "envelope_ms"),
    [
        ((), 0.15, 0, 7),
        ((-0.06, -0.09), 0.15, 200, 207),
        ((-0.06, -0.2), 0.15, 100, 107),
        ((-0.2, -0.06), 0.15, 0, 7),
        ((-0.06, -0.2, -0.05), 0.15, 100, 107),
        ((-0.15,), 0.15, 100, 107),
        ((-0.151,), 0.15, 0, 7),
        ((-0.06,), 0.05, 0, 7),
    ],
)
def test_the_envelope_ends_before_the_first_delay_that_may_cost_more(
    limits, margin, delay_ms, envelope_ms
):
    assert judge_envelope(cells(*limits), margin) == (delay_ms, envelope_ms, "")


@pytest.mark.parametrize(
    ("lost", "is_within"), [(0, True), (1, True), (2, True), (3, True), (4, False)]
)
def test_of_sixty_episodes_three_may_be_lost_at_the_default_margin(lost, is_within):
    limit = least_difference(0, lost, 60)
    envelope = judge_envelope(cells(limit), ProfileRequest(checkpoint="c").margin)
    assert (envelope.delay_ms == 100) == is_within


def test_there_is_no_envelope_where_nothing_could_be_lost():
    first = msgspec.structs.replace(cells()[0], success=rate(0, 60))
    envelope = judge_envelope([first, *cells(-0.06)[1:]], 0.15)
    assert envelope[:2] == (0, 0)
    assert envelope.note.startswith("no episode succeeded at 0 ms")


@pytest.mark.parametrize(("share", "is_busy"), [(0.0, False), (0.01, False), (0.02, True)])
def test_there_is_no_envelope_where_the_machine_was_too_busy(share, is_busy):
    found = cells(-0.06)
    found[1] = msgspec.structs.replace(found[1], late_share=share)
    envelope = judge_envelope(found, 0.15)
    assert (envelope.envelope_ms == 0) == is_busy
    assert ("too busy: 2.0% of the ticks at 100 ms came late" in envelope.note) == is_busy
