"""Which episodes run in which batch, and which are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.errors import StageFailed
from lefleet.records import AttemptCounts, ExpertDemos
from lefleet.rollouts import Act, Demonstrate, PlannedEpisode, TakeOver
from lefleet.stages.folder import StageFolder
from lefleet.stages.gather import (
    Gathered,
    GatherPlan,
    Goal,
    Key,
    _attempts,
    _rounds,
    _take,
    gather,
    interleave,
    plan_batches,
)
from lefleet.stages.progress import STARTING_SIMULATION, Update
from tests.samples import finished


def planned(row: int, key: Key) -> PlannedEpisode:
    return PlannedEpisode(row=row, task=key.task, seed=key.seed)


def plan(episodes, done=(), size=2, behaviour=None, **options):
    behaviour = behaviour or Act()
    return list(
        plan_batches(
            episodes, done, size=size, behaviour=behaviour, plan_episode=planned, **options
        )
    )


def placed(batches) -> dict[tuple[str, int], tuple[int, int]]:
    """Episode to the seed of its batch and its row."""
    return {
        (one.task, one.seed): (batch.seed, one.row) for batch in batches for one in batch.episodes
    }


def test_every_seed_visits_all_tasks_before_the_next_seed():
    assert interleave("c", ["push", "reach"], range(5, 7)) == [
        Key("c", "push", 5),
        Key("c", "reach", 5),
        Key("c", "push", 6),
        Key("c", "reach", 6),
    ]


def test_batches_have_the_size_asked_for_and_the_last_one_what_is_left():
    batches = plan(interleave("c", ["push"], range(5)), size=2)
    assert [[(s.row, s.seed) for s in batch.episodes] for batch in batches] == [
        [(0, 0), (1, 1)],
        [(0, 2), (1, 3)],
        [(0, 4)],
    ]
    assert [batch.size for batch in batches] == [2, 2, 2]


def test_a_batch_carries_what_its_episodes_share():
    batch, _ = plan(
        interleave("/policy", ["push"], range(7, 10)),
        behaviour=TakeOver(patience=3),
        episode_length=40,
        keep_failures=True,
    )
    assert batch.checkpoint == "/policy"
    assert batch.seed == 7
    assert batch.behaviour == TakeOver(patience=3)
    assert batch.episode_length == 40
    assert batch.keep_failures


def test_a_batch_that_is_done_is_left_out():
    episodes = interleave("c", ["push"], range(4))
    batches = plan(episodes, done=set(episodes[:2]))
    assert placed(batches) == {("push", 2): (2, 0), ("push", 3): (2, 1)}


def test_what_another_checkpoint_has_done_does_not_count():
    episodes = interleave("c", ["push"], range(2))
    others = set(interleave("other", ["push"], range(2)))
    assert len(placed(plan(episodes, done=others))) == 2


@given(st.data(), st.integers(1, 7), st.integers(1, 3), st.integers(1, 12))
def test_an_episode_keeps_its_batch_and_row_whatever_is_done(data, size, tasks, seeds):
    episodes = interleave("c", [f"task{number}" for number in range(tasks)], range(seeds))
    done = data.draw(st.sets(st.sampled_from(episodes)))
    whole = placed(plan(episodes, size=size))
    rest = placed(plan(episodes, done, size=size))
    missing = {(key.task, key.seed) for key in episodes if key not in done}
    assert rest.keys() == missing
    assert rest.items() <= whole.items()


def goal(episodes=2, max_attempts=9, block=3) -> Goal:
    return Goal(episodes, max_attempts, block)


def wanted(goals=None, **options) -> GatherPlan:
    goals = {"push": goal()} if goals is None else goals
    return GatherPlan(goals=goals, first_seed=100, behaviour=Demonstrate(), **options)


def seeds(lines) -> list[int]:
    return [line.seed for line in lines]


def test_the_first_round_has_as_many_attempts_as_are_wanted_and_later_ones_a_block():
    rounds = list(_rounds(wanted({"push": goal(2, max_attempts=9, block=3)})))
    ranges = [range(100, 102), range(102, 105), range(105, 108), range(108, 109)]
    assert rounds == [{"push": seeds} for seeds in ranges]


def test_the_first_round_keeps_to_the_most_attempts_too():
    assert list(_rounds(wanted({"push": goal(5, max_attempts=3)}))) == [{"push": range(100, 103)}]


def test_every_task_has_rounds_of_its_own_and_drops_out_when_its_attempts_are_used():
    goals = {"push": goal(1, max_attempts=2, block=1), "reach": goal(4, max_attempts=9, block=3)}
    assert list(_rounds(wanted(goals))) == [
        {"push": range(100, 101), "reach": range(100, 104)},
        {"push": range(101, 102), "reach": range(104, 107)},
        {"reach": range(107, 109)},
    ]


@given(episodes=st.integers(1, 30), block=st.integers(1, 30), most=st.integers(1, 200))
def test_rounds_use_every_seed_up_to_the_most_attempts_once(episodes, block, most):
    rounds = _rounds(wanted({"push": goal(episodes, max_attempts=most, block=block)}))
    assert [seed for seeds in rounds for seed in seeds["push"]] == list(range(100, 100 + most))


@given(
    goals=st.dictionaries(
        st.sampled_from(["push", "reach", "door-open"]),
        st.builds(goal, st.integers(1, 9), st.integers(1, 40), st.integers(1, 9)),
        min_size=1,
    )
)
def test_a_task_has_the_same_attempts_beside_others_as_alone(goals):
    together = list(_rounds(wanted(goals)))
    for task, one in goals.items():
        alone = [key for seeds in _rounds(wanted({task: one})) for key in _attempts("c", seeds)]
        beside = [key for seeds in together for key in _attempts("c", seeds) if key.task == task]
        assert beside == alone


def test_tasks_alternate_as_long_as_the_seeds_of_both_last():
    attempts = _attempts("c", {"push": range(5, 7), "reach": range(4, 6)})
    assert [(key.task, key.seed) for key in attempts] == [
        ("reach", 4),
        ("push", 5),
        ("reach", 5),
        ("push", 6),
    ]


@given(first=st.integers(0, 99), number=st.integers(1, 20), tasks=st.integers(1, 4))
def test_equal_goals_give_every_seed_to_all_tasks_in_turn(first, number, tasks):
    names = [f"task{one}" for one in range(tasks)]
    seeds = range(first, first + number)
    assert _attempts("c", dict.fromkeys(names, seeds)) == interleave("c", names, seeds)


def test_the_first_kept_episodes_by_seed_are_taken_however_they_arrived():
    lines = [finished(seed=3), finished(seed=1), finished(seed=2)]
    assert seeds(_take(wanted({"push": goal(2)}), lines, "push")) == [1, 2]


def test_an_episode_without_labels_is_not_taken():
    lines = [finished(seed=1, labelled=0), finished(seed=2)]
    assert seeds(_take(wanted(), lines, "push")) == [2]


def test_episodes_of_other_tasks_are_not_taken():
    lines = [finished("reach", seed=1), finished("push", seed=2)]
    assert seeds(_take(wanted(), lines, "push")) == [2]


def test_interleaved_episodes_alternate_between_tasks_as_long_as_they_last():
    kept = {
        "push": [finished("push", seed) for seed in (1, 4, 6)],
        "reach": [finished("reach", 2)],
        "door-open": [],
    }
    gathered = Gathered(kept, {task: AttemptCounts(kept=0, attempted=0) for task in kept})
    order = [(one.task, one.seed) for one in gathered.interleaved()]
    assert order == [("push", 1), ("reach", 2), ("push", 4), ("push", 6)]


def test_no_attempt_is_reported_or_written_that_fails_its_verification(tmp_path):
    def verify() -> None:
        raise StageFailed("changed", "restore")

    reported: list[Update] = []
    plan = wanted({"reach": goal(1)}, workers=1)
    with StageFolder(tmp_path / "collect", ExpertDemos()) as stage:
        with pytest.raises(StageFailed, match="changed"):
            gather(plan, stage, reported.append, verify)
        assert (stage.path / "attempts.jsonl").read_bytes() == b""
    assert reported == [STARTING_SIMULATION, Update(0, 1, "episodes", "0 attempted")]
