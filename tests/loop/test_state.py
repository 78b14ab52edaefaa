"""From an empty run to its end, one step at a time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replace_fields

from lefleet.errors import BadInput
from lefleet.loop.decide import make_decision
from lefleet.loop.limits import require_room, usage
from lefleet.loop.steps import Decide, EndRun, Propose, RunStage, next_step
from lefleet.records import Budgets, EvaluatePlan, GatePlan, ImprovePlan, Rate
from lefleet.stats import has_room, pairs_for_room
from tests.loop.states import config, cycle, decision, gate, origin, play, result, state
from tests.samples import evaluation_record

IMPROVING = ImprovePlan(method="correct")
OUTCOMES = st.lists(st.sampled_from(["promote", "iterate", "rollback", "escalate", "stop"]))


def words(steps) -> str:
    """Steps in short: stages by name, `propose`, `decide`, `|` between cycles."""
    found = []
    for step in steps:
        match step:
            case RunStage():
                found.append(step.stage)
            case Propose():
                found += ["|", "propose"] if step.cycle else ["propose"]
            case Decide():
                found.append("decide")
            case _:
                found.append("end")
    return " ".join(found)


def test_a_run_without_improving_goes_through_its_cycles():
    assert words(play(config(), "baseline promote iterate")) == (
        "propose collect train evaluate decide | "
        "propose collect train evaluate gate decide | "
        "propose collect train evaluate gate decide end"
    )


def test_improving_comes_after_every_decision_but_the_last():
    assert words(play(config(improve=IMPROVING), "baseline promote iterate")) == (
        "propose collect train evaluate decide improve | "
        "propose collect train evaluate gate decide improve | "
        "propose collect train evaluate gate decide end"
    )


def test_improving_that_failed_for_good_is_left_out():
    steps = play(config(improve=IMPROVING), "baseline promote iterate", skip=("improve",))
    assert words(steps).count("improve") == 2
    assert steps[-1] == EndRun("finished", "all 3 cycles are done")


def test_nothing_is_gated_or_improved_before_there_is_a_baseline():
    assert words(play(config(improve=IMPROVING), "iterate iterate baseline")) == (
        "propose collect train evaluate decide | "
        "propose collect train evaluate decide | "
        "propose collect train evaluate decide end"
    )


def test_the_cycle_after_a_late_baseline_has_a_gate():
    steps = play(config(), "iterate baseline promote")
    assert [step.cycle for step in steps if step[1:] == ("gate",)] == [2]


def test_a_stop_decision_ends_the_run_with_its_reason():
    steps = play(config(), "baseline stop iterate")
    assert steps[-1] == EndRun("finished", "stop")
    assert steps[-2] == Decide(1)


def test_every_step_carries_its_cycle():
    steps = play(config(), "baseline promote iterate")[:-1]
    assert [step.cycle for step in steps] == [0] * 5 + [1] * 6 + [2] * 6


def test_a_request_to_stop_ends_the_run_wherever_it_is():
    asked = []

    def ask(now, step):
        asked.append(next_step(replace(now, stop_requested=True)))

    steps = play(config(improve=IMPROVING), "baseline promote iterate", watch=ask)
    assert asked == [EndRun("stopped", "on request")] * len(steps)


def test_a_committed_stage_is_not_done_again():
    now = state(cycle(0, "collect", "train"))
    assert next_step(now) == RunStage(0, "evaluate")


def test_a_decided_cycle_leads_to_the_next_one():
    done = cycle(0, "collect", "train", "evaluate", decided=decision(0, "iterate"))
    step = next_step(state(done))
    assert isinstance(step, Propose)
    assert step.cycle == 1


@given(st.integers(1, 6), st.integers(0, 3), OUTCOMES, st.booleans(), st.booleans())
def test_whatever_is_decided_a_gate_has_a_baseline_and_the_run_ends(
    cycles, late, later, improving, skipping
):
    outcomes = ["iterate"] * late + ["baseline"] + later
    outcomes += ["iterate"] * cycles
    plan = config(budgets=Budgets(cycles=cycles), improve=IMPROVING if improving else ImprovePlan())

    def watch(now, step):
        if isinstance(step, RunStage) and step.stage in ("gate", "improve"):
            assert now.blessed() is not None
        if isinstance(step, Decide):
            assert ("gate" in now.current.records) == (step.cycle > late)

    skip = ("improve",) if skipping else ()
    steps = play(plan, " ".join(outcomes), skip=skip, watch=watch)
    assert steps[-1].state == "finished"
    assert len(set(map(repr, steps))) == len(steps)
    assert max(step.cycle for step in steps[:-1]) < cycles


@pytest.mark.parametrize("cycles", [1, 2])
def test_a_run_has_as_many_cycles_as_it_may(cycles):
    steps = play(config(budgets=Budgets(cycles=cycles)), "baseline promote")
    assert sum(isinstance(step, Decide) for step in steps) == cycles


RATE = Rate(successes=59, episodes=60, rate=0.98, interval=(0.9, 1.0))


def nearly_perfect(gate_plan: GatePlan, successes: int = 59, tasks: int = 1, **changes):
    """A run whose baseline succeeded in nearly all of 60 episodes, its second cycle evaluated."""
    first = cycle(0, "collect", "train", decided=decision(0, "baseline", "c0"))
    rates = {f"task {number}": RATE for number in range(tasks)}
    shown = replace_fields(result(successes, 0, episodes=60), per_task=rates)
    first.records["evaluate"] = evaluation_record(result=shown)
    second = cycle(1, "collect", "train", "evaluate")
    return state(first, second, of=config(gate=gate_plan, **changes))


def decided(now):
    """The state after the decision about the second cycle."""
    second = replace(now.cycles[1], decision=make_decision(now, 1))
    return replace(now, cycles=[now.cycles[0], second])


def test_where_the_baseline_leaves_no_room_the_run_ends_with_the_remedy():
    now = nearly_perfect(GatePlan(max_pairs=60), budgets=Budgets(cycles=9))
    assert next_step(now) == Decide(1)
    made = make_decision(now, 1)
    assert (made.decision, made.gate, made.level, made.gate_number) == ("stop", None, None, 0)
    assert made.why.startswith("no room to show an improvement over 98%: ")
    assert made.why.endswith(
        f"lefleet run -c FILE --from r --name=NEW --gate.max_pairs={made.pairs_needed}"
    )
    assert next_step(decided(now)) == EndRun("finished", made.why)


def test_the_remedy_gives_room_in_the_first_gate_of_the_new_run():
    needed = make_decision(nearly_perfect(GatePlan(max_pairs=60)), 1).pairs_needed
    new = state(
        cycle(0, "collect", "train", "evaluate"),
        of=config(gate=GatePlan(max_pairs=needed)),
        origin=origin(result=replace_fields(result(59, episodes=60), digest="a2")),
    )
    assert next_step(new) == RunStage(0, "gate")
    level = new.gate_level(0).better
    assert has_room(level, 1 - new.baseline_rate(), needed)
    assert needed == pairs_for_room(level, 1 - new.baseline_rate())


def test_a_run_that_ended_without_room_is_not_continued_within_other_budgets():
    ended = decided(nearly_perfect(GatePlan(max_pairs=60), budgets=Budgets(cycles=9)))
    with pytest.raises(BadInput) as caught:
        require_room(ended, "r", usage(ended, 0.0))
    needed = ended.current.decision.pairs_needed
    assert str(caught.value).startswith("budgets: r ended with the decision stop in cycle 1, not ")
    assert str(caught.value).endswith(f"--from r --name=NEW --gate.max_pairs={needed}.")


def test_room_is_that_of_the_pairs_that_a_list_of_initial_states_allows():
    plan, of_list = GatePlan(max_pairs=200), {"evaluate": EvaluatePlan(initial_states=5)}
    assert next_step(nearly_perfect(plan, 51)) == RunStage(1, "gate")
    assert next_step(nearly_perfect(plan, 51, tasks=40, **of_list)) == RunStage(1, "gate")
    short = nearly_perfect(plan, 51, **of_list)
    assert next_step(short) == Decide(1)
    made = make_decision(short, 1)
    assert made.decision == "stop"
    assert made.why.endswith(
        f": {made.pairs_needed} pairs would show it, and the list of initial states allows 5"
    )


def test_progress_always_has_a_gate():
    assert next_step(nearly_perfect(GatePlan(max_pairs=60, metric="progress"))) == RunStage(
        1, "gate"
    )


def test_a_level_names_the_cycle_that_passed_it_on():
    promoted = decision(1, "promote", "c1", gate=gate("better"))
    late = state(cycle(0, decided=decision(0, "baseline", "c0")), cycle(1, decided=promoted))
    level = late.gate_level(2)
    assert level.passed_by == 1
    assert (level.passed_on, level.better) == pytest.approx((0.02, 0.04))
    assert late.gate_level(1).passed_by is None


def test_levels_beyond_the_first_budget_come_from_the_reserve():
    more = config(budgets=Budgets(cycles=6))
    cycles = [cycle(0, decided=decision(0, "baseline", "c0"))]
    cycles += [
        cycle(index, decided=decision(index, "iterate", "c0", gate=gate())) for index in (1, 2)
    ]
    extended = state(*cycles, of=more, planned_cycles=3)
    assert [extended.gate_level(index).source for index in (1, 2, 3)] == [
        "planned",
        "planned",
        "reserve",
    ]


def test_a_finite_list_of_initial_states_gives_no_promise_for_the_run():
    finite = config(evaluate=EvaluatePlan(initial_states=50))
    assert state(of=finite).gate_level(1).guarantee == "none"
    assert state().gate_level(1).guarantee == "run"


def test_gates_are_planned_by_the_first_budget_and_one_more_where_something_is_blessed():
    plan = config(budgets=Budgets(cycles=6))
    assert state(of=plan).planned_gates == 5
    assert state(of=plan, planned_cycles=3).planned_gates == 2
    assert state(of=plan, planned_cycles=3, origin=origin()).planned_gates == 3
