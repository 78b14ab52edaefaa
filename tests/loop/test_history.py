"""What past cycles did and what came of it, and the action that is chosen for it."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.ledger import open_ledger
from lefleet.loop.history import (
    Experience,
    PastCycle,
    action_of,
    choose_action,
    estimated_gain,
    past_cycles,
    read_experience,
)
from lefleet.loop.state import CycleState, read_state
from lefleet.records import (
    AttemptCounts,
    DatasetSource,
    EvaluatePlan,
    ImprovePlan,
    Proposal,
    Rate,
    RunConfig,
)
from tests.ledger.ledgers import REQUEST, execute
from tests.loop.states import config, decision, digest, gate, origin, record, result, state
from tests.samples import dataset_record, evaluation_record, mix_record

ALL = ("demonstrations", "corrections", "harvest")
AUTO = ImprovePlan(method="auto")


def rate(successes: int, episodes: int = 60) -> Rate:
    share = successes / episodes
    return Rate(successes=successes, episodes=episodes, rate=share, interval=(0.0, 1.0))


def past(action: str, before: int, after: int, episodes: int = 60, **changes) -> PastCycle:
    values = {
        "run": "demo",
        "cycle": 1,
        "made": 0 if action == "demonstrations" else 6,
        "demonstrations": 18,
        "verdict": "better",
    }
    rates = {"before": rate(before, episodes), "after": rate(after, episodes)}
    return PastCycle(action=action, **rates, **values | changes)


def cycle(
    number: int,
    successes: int,
    blessed: int | None,
    *,
    made: str = "",
    verdict: str = "",
    rung: int = 0,
    **changes,
) -> CycleState:
    """A decided cycle with this success, after which the checkpoint of cycle `blessed` is
    blessed. `made` is the method by which its policy made six episodes."""
    records = {
        "collect": dataset_record(tallies={"push": AttemptCounts(kept=18, attempted=20)}),
        "train": record(number, "train"),
        "evaluate": evaluation_record(result=result(successes, number, episodes=60)),
    }
    if made:
        records["improve"] = mix_record(method=made, added={"push": 6})
    decided = decision(
        number,
        "iterate",
        "" if blessed is None else digest(blessed),
        rung,
        gate=gate(verdict) if verdict else None,
    )
    return CycleState(number, records, decided, **changes)


# What past cycles were


def test_a_cycle_is_compared_with_the_checkpoint_that_was_blessed_before():
    now = state(
        cycle(0, 20, 0, made="correct"),
        cycle(1, 41, 1, made="harvest", verdict="better"),
        cycle(2, 38, 1, verdict="inconclusive"),
        cycle(3, 50, 3, verdict="better"),
    )
    found = [
        (one.cycle, one.action, one.before.successes, one.after.successes, one.verdict)
        for one in past_cycles("r", now, None)
    ]
    assert found == [
        (1, "corrections", 20, 41, "better"),
        (2, "harvest", 41, 38, "inconclusive"),
        (3, "demonstrations", 41, 50, "better"),
    ]


def test_a_past_cycle_counts_new_demonstrations_and_what_the_policy_made():
    now = state(cycle(0, 20, 0, made="correct"), cycle(1, 41, 1, verdict="better"))
    (one,) = past_cycles("r", now, None)
    assert (one.run, one.demonstrations, one.made) == ("r", 18, 6)
    assert one.change == pytest.approx(21 / 60)
    assert (one.failures, one.ended_failures) == (pytest.approx(40), pytest.approx(21))


def test_without_anything_blessed_before_there_is_nothing_to_compare_with():
    now = state(cycle(0, 0, None), cycle(1, 20, 1))
    assert list(past_cycles("r", now, None)) == []


def test_a_cycle_on_another_rung_is_left_out():
    now = state(cycle(0, 20, 0), cycle(1, 41, 1, rung=1))
    bigger = (config().ladder[0], msgspec.structs.replace(config().ladder[1], policy_type="big"))
    now = replace(now, config=config(ladder=bigger))
    assert list(past_cycles("r", now, None)) == []


def test_the_first_cycle_of_a_run_from_another_uses_what_that_one_made_last():
    before = state(cycle(0, 20, 0), cycle(1, 30, 1), cycle(2, 36, 2, made="harvest"))
    taken = origin(checkpoint=record(9, "train"), result=result(36, 9, episodes=60))
    now = state(cycle(0, 40, 0, verdict="better"), origin=taken)
    (known,) = past_cycles("b", now, before)
    assert (known.action, known.before.successes, known.after.successes) == ("harvest", 36, 40)
    (unknown,) = past_cycles("b", now, None)
    assert unknown.action == "demonstrations"


def proposal(action: str) -> Proposal:
    return Proposal(cycle=0, action=action, episodes={}, source="schedule", why="")


@pytest.mark.parametrize(
    ("one", "action"),
    [
        (None, "demonstrations"),
        (cycle(0, 20, 0), "demonstrations"),
        (cycle(0, 20, 0, made="correct"), "corrections"),
        (cycle(0, 20, 0, made="harvest"), "harvest"),
        (cycle(0, 20, 0, proposal=proposal("harvest")), "demonstrations"),
        (
            cycle(0, 20, 0, proposal=proposal("harvest"), skipped=frozenset({"improve"})),
            "harvest",
        ),
    ],
)
def test_an_action_counts_as_done_where_it_was_carried_out_or_failed_for_good(one, action):
    assert action_of(one) == action


# What is chosen


def test_of_one_possible_action_that_one_is_chosen():
    chosen = choose_action(Experience([past("corrections", 20, 50)]), ("harvest",))
    assert chosen.action == "harvest"


def test_what_was_never_tried_comes_first_and_in_order():
    assert choose_action(Experience(), ALL).action == "corrections"
    after = Experience([past("demonstrations", 20, 50)], under_way="corrections")
    chosen = choose_action(after, ALL)
    assert chosen.action == "harvest"
    assert chosen.why == "not tried on these tasks yet"


def test_what_is_not_possible_is_not_tried():
    chosen = choose_action(Experience(), ("demonstrations", "harvest"))
    assert chosen.action == "harvest"


TRIED = [past("demonstrations", 20, 32), past("corrections", 32, 46), past("harvest", 46, 45)]


def test_what_ended_most_failures_is_chosen_and_explained_with_its_numbers():
    chosen = choose_action(Experience(TRIED), ALL)
    assert chosen.action == "corrections"
    assert chosen.why == (
        "+23 points per cycle with 24 new episodes, better in 1 of 1 gates of demo, "
        "ends about 42% of failures; demonstrations 30%, harvest 15%"
    )


def test_the_same_points_count_for_more_where_less_is_left_to_gain():
    early, late = past("demonstrations", 10, 20), past("corrections", 46, 56)
    assert choose_action(Experience([early, late]), ALL[:2]).action == "corrections"


def test_one_lucky_cycle_does_not_decide_for_ever():
    lucky = [past("demonstrations", 20, 26), past("corrections", 26, 50)]
    assert choose_action(Experience(lucky), ALL[:2]).action == "corrections"
    disappointed = [*lucky, *[past("corrections", 50, 48)] * 6]
    assert choose_action(Experience(disappointed), ALL[:2]).action == "demonstrations"


def test_a_cycle_with_few_episodes_says_little():
    few = [past("demonstrations", 20, 32), past("corrections", 1, 3, episodes=3)]
    many = [past("demonstrations", 20, 32), past("corrections", 20, 60)]
    own = estimated_gain("corrections", few), estimated_gain("corrections", many)
    assert 0.3 < own[0] < 0.4
    assert own[1] > 0.8


def test_equal_estimates_leave_it_to_the_order():
    same = [past(action, 20, 40) for action in reversed(ALL)]
    assert choose_action(Experience(same), ALL).action == "demonstrations"


def test_several_runs_are_named_or_counted():
    two = [past("corrections", 32, 46, run=run) for run in ("a", "b")]
    four = [*two, *(past("corrections", 32, 46, run=run) for run in ("c", "d"))]
    demos = past("demonstrations", 20, 20)
    said = [choose_action(Experience([demos, *one]), ALL[:2]).why for one in (two, four)]
    assert "better in 2 of 2 gates of a and b, " in said[0]
    assert "better in 4 of 4 gates of d and 3 others, " in said[1]


past_cycle = st.builds(
    past,
    st.sampled_from(ALL),
    st.integers(0, 60),
    st.integers(0, 60),
    cycle=st.integers(1, 9),
)
possible = st.sampled_from([ALL[:1], ALL[:2], ALL, ("demonstrations", "harvest")])


@given(st.lists(past_cycle, max_size=8), possible, st.sampled_from(ALL))
def test_only_what_is_possible_is_chosen_whatever_happened(history, actions, under_way):
    chosen = choose_action(Experience(history, under_way), actions)
    assert chosen.action in actions
    assert chosen.why
    assert chosen == choose_action(Experience(history, under_way), actions)


@given(st.lists(past_cycle, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_past_cycles_does_not_matter(history, random):
    shuffled = random.sample(history, len(history))
    one = choose_action(Experience(history), ALL).action
    assert choose_action(Experience(shuffled), ALL).action == one


# From the ledger


@pytest.fixture
def ledger(tmp_path):
    made = open_ledger(tmp_path)
    yield made
    made.close()


def play(ledger, of: RunConfig, *cycles: CycleState) -> None:
    """A run in the ledger whose cycles have these records and decisions."""
    assert ledger.create_run(of.name, msgspec.to_builtins(of))
    for one in cycles:
        for stage, made in one.records.items():
            attempt = ledger.start_attempt(of.name, one.index, stage, REQUEST)
            ledger.commit_stage(attempt, made)
        ledger.record_decision(of.name, one.decision)


TWO = (cycle(0, 20, 0, made="correct"), cycle(1, 41, 1, made="harvest", verdict="better"))


def experience(ledger, run: str, number: int) -> Experience:
    return read_experience(ledger, run, read_state(ledger, ledger.run(run)), number)


def test_the_ledger_tells_of_this_run_and_of_others_on_the_same_tasks(ledger):
    play(ledger, config(name="older"), *TWO)
    play(ledger, config(name="other_tasks", tasks=("reach",)), *TWO)
    play(ledger, config(name="own_data", collect=DatasetSource(root="/data")), *TWO)
    elsewhere = EvaluatePlan(env={"type": "pusht"})
    play(ledger, config(name="elsewhere", evaluate=elsewhere), *TWO)
    play(ledger, config(name="mine", improve=AUTO, tasks=("push-v3",)), *TWO)
    found = experience(ledger, "mine", 2)
    assert [(one.run, one.cycle, one.action) for one in found.past] == [
        ("older", 1, "corrections"),
        ("mine", 1, "corrections"),
    ]
    assert found.under_way == "harvest"


def test_a_new_run_has_only_the_experience_of_others(ledger):
    play(ledger, config(name="older"), *TWO)
    play(ledger, config(name="mine", improve=AUTO))
    found = experience(ledger, "mine", 0)
    assert [one.run for one in found.past] == ["older"]
    assert found.under_way == "demonstrations"


def test_a_run_that_cannot_be_read_is_left_out(ledger, tmp_path):
    play(ledger, config(name="broken"), *TWO)
    play(ledger, config(name="mine", improve=AUTO), *TWO)
    execute(tmp_path, "update run set config = '{}' where id = 'broken'")
    assert [one.run for one in experience(ledger, "mine", 2).past] == ["mine"]


def test_nothing_is_read_where_the_config_names_the_action(ledger):
    play(ledger, config(name="older"), *TWO)
    play(ledger, config(name="mine"), *TWO)
    assert experience(ledger, "mine", 2) == Experience()


def test_a_verdict_that_was_not_better_is_counted_and_no_gate_is_not():
    gates = [past("corrections", 32, 46, verdict=one) for one in ("inconclusive", "better", None)]
    demos = past("demonstrations", 20, 20)
    said = choose_action(Experience([demos, *gates]), ALL[:2]).why
    assert "better in 1 of 2 gates of demo" in said
