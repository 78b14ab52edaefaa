"""What every stage is asked to do, and on which seeds."""

from itertools import combinations
from pathlib import Path

import pytest

from lefleet.errors import BadInput
from lefleet.loop.requests import cycle_inputs, demonstrations, first_seed, make_request
from lefleet.loop.steps import RunStage
from lefleet.records import Budgets, DatasetSource, ExpertGrowth, GatePlan, ImprovePlan, SeedBlock
from tests.loop.states import config, cycle, decision, play, record, state

RUN = Path("/runs/r")
IMPROVING = ImprovePlan(method="correct", episodes_per_task=30)
FRESH = ("collect", "gate", "improve")
DONE = ("collect", "train", "evaluate")


def requests_of(outcomes: str, **changes) -> dict[tuple[int, str], object]:
    """Every request of a whole run."""
    found = {}
    plan = config(budgets=Budgets(cycles=len(outcomes.split())), **changes)

    def ask(now, step):
        if isinstance(step, RunStage):
            found[tuple(step)] = make_request(cycle_inputs(now, RUN, step.cycle), step.stage)

    play(plan, outcomes, watch=ask)
    return found


@pytest.mark.parametrize(
    ("schedule", "counts"),
    [((3, 8, 25), [0, 3, 8, 25, 42, 59]), ((5,), [0, 5, 10, 15, 20, 25])],
)
def test_demonstrations_follow_the_schedule_and_then_grow_by_its_last_difference(schedule, counts):
    growth = ExpertGrowth(episodes_per_task=schedule)
    assert [demonstrations(growth, number) for number in range(-1, 5)] == counts


def test_every_cycle_collects_what_is_new():
    made = requests_of("baseline iterate iterate iterate")
    assert [made[number, "collect"].episodes_per_task for number in range(4)] == [2, 6, 17, 17]


def used_seeds(stage: str, request) -> range:
    """All seeds that a stage may come to use."""
    match stage:
        case "collect":
            count = 4 * request.episodes_per_task + 10
        case "improve":
            count = request.max_attempts_per_task or 5 * request.episodes_per_task
        case "gate":
            count = request.max_pairs
        case _:
            count = request.episodes_per_task
    return range(request.seed, request.seed + count)


def test_no_two_stages_of_ten_cycles_share_a_seed_but_evaluations():
    made = requests_of("baseline" + " iterate" * 9, improve=IMPROVING)
    evaluations = {used_seeds(s, r) for (_, s), r in made.items() if s == "evaluate"}
    assert len(evaluations) == 1
    others = [used_seeds(s, r) for (_, s), r in made.items() if s in FRESH]
    assert len(others) == 10 + 9 + 9
    for one, other in combinations([*others, *evaluations], 2):
        assert one.stop <= other.start or other.stop <= one.start


def test_runs_with_different_seeds_share_none():
    blocks = [requests_of("baseline iterate", seed=seed, improve=IMPROVING) for seed in (0, 1, 99)]
    ranges = [used_seeds(s, r) for made in blocks for (_, s), r in made.items() if s in FRESH]
    for one, other in combinations(ranges, 2):
        assert one.stop <= other.start or other.stop <= one.start


@pytest.mark.parametrize(("seed", "number"), [(100, 0), (0, 100)])
def test_where_seeds_run_out_the_field_is_named(seed, number):
    with pytest.raises(BadInput, match=r"seed: 100|budgets\.cycles"):
        first_seed(SeedBlock.GATE, seed, number)


def parts(outcomes: str, number: int, **changes) -> list[str]:
    made = requests_of(outcomes, **changes)[number, "collect"].add_to
    return [path.removeprefix(f"{RUN}/cycle_") for path in made]


def test_the_first_cycle_adds_to_nothing():
    assert parts("baseline", 0) == []


def test_a_cycle_adds_to_every_earlier_part_once():
    assert parts("baseline iterate iterate", 2) == ["0/collect/dataset", "1/collect/dataset"]


def test_what_policies_made_is_kept():
    assert parts("baseline iterate iterate", 2, improve=IMPROVING) == [
        "0/collect/dataset",
        "1/collect/dataset",
        "0/improve/added",
        "1/improve/added",
    ]


def test_what_led_to_a_rollback_is_left_out_from_then_on():
    outcomes = "baseline rollback iterate iterate"
    kept = ["0/collect/dataset", "1/collect/dataset", "1/improve/added"]
    assert parts(outcomes, 2, improve=IMPROVING) == kept
    assert "0/improve/added" not in parts(outcomes, 3, improve=IMPROVING)


def test_training_begins_anew_before_there_is_a_blessed_checkpoint():
    made = requests_of("iterate baseline")
    assert [made[number, "train"].init for number in range(2)] == ["", ""]


def test_training_continues_from_the_blessed_checkpoint():
    made = requests_of("baseline rollback promote iterate")
    assert [made[number, "train"].init for number in range(4)] == ["", "/c0", "/c0", "/c2"]


def test_training_begins_anew_where_the_config_says_so():
    made = requests_of("baseline iterate", continue_training=False)
    assert made[1, "train"].init == ""


def test_a_new_rung_does_not_continue_from_another_rungs_checkpoint():
    made = requests_of("baseline escalate promote iterate")
    assert [made[number, "train"].init for number in range(4)] == ["", "/c0", "", "/c2"]


def test_every_training_has_its_own_seed():
    made = requests_of("baseline iterate iterate", seed=7)
    assert [made[number, "train"].seed for number in range(3)] == [7000, 7001, 7002]


def test_a_gate_compares_the_new_checkpoint_with_the_blessed_one():
    request = requests_of("baseline iterate")[1, "gate"]
    assert (request.checkpoint, request.baseline) == (f"{RUN}/cycle_1/train", "/c0")


def levels_of(outcomes: str, **plan) -> list[tuple[float, float]]:
    """Of every gate, for better and for worse."""
    made = requests_of(outcomes, gate=GatePlan(alpha=0.05, **plan))
    gates = [request for (_, stage), request in made.items() if stage == "gate"]
    return [(gate.alpha_better, gate.alpha_worse) for gate in gates]


def test_planned_gates_share_alpha():
    assert levels_of("baseline iterate rollback") == [pytest.approx((0.02, 0.02))] * 2


def test_a_promotion_passes_its_level_on_for_better_alone():
    assert levels_of("baseline promote iterate iterate") == [
        pytest.approx((0.04 / 3, 0.04 / 3)),
        pytest.approx((0.08 / 3, 0.04 / 3)),
        pytest.approx((0.04 / 3, 0.04 / 3)),
    ]


def test_a_gate_knows_the_rate_of_the_baseline():
    # 2 of 4 episodes, and one more success and failure.
    assert requests_of("baseline iterate")[1, "gate"].baseline_rate == pytest.approx(0.5)


def test_a_promotion_earns_level_back_where_the_rate_is_guaranteed():
    plan = GatePlan(alpha=0.05, guarantee="rate")
    without = requests_of("baseline iterate iterate iterate", gate=plan)[3, "gate"].alpha_better
    assert (
        requests_of("baseline iterate promote iterate", gate=plan)[3, "gate"].alpha_better > without
    )


def test_improving_rolls_the_blessed_checkpoint_out_and_adds_to_this_cycles_data():
    request = requests_of("baseline rollback iterate", improve=IMPROVING)[1, "improve"]
    assert (request.checkpoint, request.demos) == ("/c0", f"{RUN}/cycle_1/collect")
    assert request.method == "correct"


def test_the_mixing_ratio_counts_what_policies_made_in_earlier_cycles_but_not_what_was_dropped():
    made = requests_of("baseline iterate rollback iterate iterate", improve=IMPROVING)
    counts = [made[number, "improve"].self_generated for number in range(4)]
    once = sum(record(0, "improve").added.values())
    assert counts == [0, once, 2 * once, 2 * once]


def test_a_gate_without_a_blessed_checkpoint_cannot_be_asked_for():
    now = state(cycle(0, *DONE, decided=decision(0, "iterate")))
    with pytest.raises(ValueError, match="blessed"):
        make_request(cycle_inputs(now, RUN, 1), "gate")


def test_an_existing_dataset_is_the_same_in_every_cycle():
    made = requests_of("baseline iterate", collect=DatasetSource(repo_id="a/b"))
    assert made[0, "collect"] == made[1, "collect"]
    assert (made[0, "collect"].repo_id, made[0, "collect"].tasks) == ("a/b", ("push",))


def test_a_schedule_takes_more_of_an_existing_dataset_in_every_cycle():
    source = DatasetSource(repo_id="a/b", episodes_per_task=(10, 20, 40))
    history = "baseline promote iterate promote"
    made = requests_of(history, collect=source)
    asked = [made[number, "collect"] for number in range(4)]
    assert [one.episodes_per_task for one in asked] == [10, 20, 40, 60]
    assert {one.at_least for one in asked} == {60}, "what the last cycle needs is known at once"
    assert len({one.seed for one in asked}) == 1, "the same order in every cycle"


@pytest.mark.parametrize("number", [0, 12])
def test_a_plain_number_of_an_existing_dataset_stays_the_same(number):
    source = DatasetSource(repo_id="a/b", episodes_per_task=number)
    made = requests_of("baseline iterate", collect=source)
    assert made[0, "collect"] == made[1, "collect"]
    assert (made[0, "collect"].episodes_per_task, made[0, "collect"].at_least) == (number, 0)
