"""Lessons: sentences of the statistics, their statuses, and what they do not claim."""

from dataclasses import replace

import pytest

from lefleet.knowledge.comparisons import comparisons, disagreements
from lefleet.knowledge.facts import read_facts
from lefleet.knowledge.lessons import lessons
from lefleet.records import DatasetSource, EvaluatePlan, Rung
from tests.knowledge.played import Cycle, PlayedRun, demo_like, even
from tests.loop.states import origin


def taught(ledger) -> dict[str, object]:
    """Lessons by the beginning of their id, without its hash."""
    found = lessons(comparisons(read_facts(ledger)))
    return {one.id.rpartition("-")[0]: one for one in found}


def growth(ledger, workdir, name, *, first=2, then=8, low=0, high=18, **changes) -> PlayedRun:
    """Two cycles of one task without a gate, the second with more data and as much training."""
    return PlayedRun(ledger, workdir, name, **changes).play(
        Cycle(demos=first, successes=even(low, "push"), continues=False),
        Cycle(demos=then, successes=even(high, "push"), continues=False),
    )


def test_a_lesson_says_what_changed_the_rates_and_the_evidence(ledger, workdir):
    demo_like(ledger, workdir)
    lesson = taught(ledger)["pick-place-small-act-8-to-25-demonstrations"]
    assert lesson.text == (
        "8 → 25 demonstrations of pick-place (small-act): 70 % → 100 %, 20 episodes each on the "
        "same seeds, 95 % intervals 46 to 88 and 83 to 100 %; better, more than by chance (6 won, "
        "0 lost; exact p = 0.031, not adjusted); the gate over all tasks: better at level 0.03 (5 "
        "won, 0 lost of 50 pairs, 1 and 0 of 16 in this task). Training steps (2000 → 3000) "
        "changed too, so it is not known what made the difference."
    )


def test_about_all_tasks_the_gate_speaks(ledger, workdir):
    demo_like(ledger, workdir)
    lesson = taught(ledger)["all-small-act-6-to-24-demonstrations"]
    assert "33 % → 85 %, 60 episodes each" in lesson.text
    assert (
        "the gate over all tasks: better at level 0.03 (10 won, 0 lost of 50 pairs)" in lesson.text
    )
    assert "exact p" not in lesson.text


def test_a_difference_that_may_be_chance_is_called_that(ledger, workdir):
    growth(ledger, workdir, "a", low=10, high=12)
    (lesson,) = taught(ledger).values()
    assert "this may be chance (2 won, 0 lost; exact p = 0.5, not adjusted)" in lesson.text


def test_nothing_is_blamed_where_only_the_data_changed(ledger, workdir):
    growth(ledger, workdir, "a")
    (lesson,) = taught(ledger).values()
    assert lesson.comparisons[0].changes == ("demonstrations",)
    assert "not known" not in lesson.text


def test_several_changes_at_once_are_all_named(ledger, workdir):
    ladder = (Rung(name="small"), Rung(name="big"))
    PlayedRun(ledger, workdir, "a", ladder=ladder).play(
        Cycle(demos=2, successes=even(1, "push"), made={"push": 3}),
        Cycle(demos=8, successes=even(18, "push"), rung=1, steps=500),
    )
    (lesson,) = taught(ledger).values()
    assert lesson.headline.startswith("small → big, in push")
    assert (
        "Demonstrations (2 → 8), data that policies made (0 → 3 corrections) and training steps "
        "(1000 → 1500) changed too"
    ) in lesson.text


def test_provenance_names_rows_of_the_ledger(ledger, workdir):
    demo_like(ledger, workdir)
    events = {event.id: event.kind for event in ledger.events("demo")}
    for lesson in taught(ledger).values():
        for source in lesson.provenance:
            assert source.run == "demo"
            assert {events[one] for one in source.events} == {"stage_committed", "decision"}


def test_one_run_observes_and_another_seed_replicates(ledger, workdir):
    growth(ledger, workdir, "a")
    (lesson,) = taught(ledger).values()
    assert lesson.status == "observed-once"
    growth(ledger, workdir, "b", seed=1, high=16)
    (lesson,) = taught(ledger).values()
    assert lesson.status == "replicated"
    assert "Replicated in run b, cycle 1 (seed 1)" in lesson.text
    assert {one.after.run for one in lesson.comparisons} == {"a", "b"}


def test_the_same_seed_replicates_nothing(ledger, workdir):
    growth(ledger, workdir, "a")
    growth(ledger, workdir, "b")
    (lesson,) = taught(ledger).values()
    assert lesson.status == "observed-once"


def test_another_schedule_replicates_where_its_range_overlaps(ledger, workdir):
    growth(ledger, workdir, "a")
    growth(ledger, workdir, "b", seed=1, first=4, then=10)
    growth(ledger, workdir, "c", seed=2, first=50, then=99)
    statuses = {name: one.status for name, one in taught(ledger).items()}
    assert statuses == {
        "push-small-act-2-to-8-demonstrations": "replicated",
        "push-small-act-4-to-10-demonstrations": "replicated",
        "push-small-act-50-to-99-demonstrations": "observed-once",
    }


def test_a_result_that_may_be_chance_replicates_nothing(ledger, workdir):
    growth(ledger, workdir, "a")
    growth(ledger, workdir, "b", seed=1, low=10, high=12)
    (lesson,) = taught(ledger).values()
    assert lesson.status == "observed-once"


def test_newer_evidence_against_it_contradicts(ledger, workdir):
    growth(ledger, workdir, "a")
    growth(ledger, workdir, "b", seed=1)
    growth(ledger, workdir, "c", seed=2, low=19, high=3)
    (lesson,) = taught(ledger).values()
    assert lesson.status == "contradicted"
    assert "Contradicted in run c, cycle 1 (seed 2)" in lesson.text
    assert "95 % → 15 %" in lesson.text


def test_older_evidence_does_not_contradict_a_newer_lesson(ledger, workdir):
    growth(ledger, workdir, "a", first=2, then=8, low=19, high=3)
    growth(ledger, workdir, "b", first=4, then=10, seed=1)
    statuses = {name: one.status for name, one in taught(ledger).items()}
    assert statuses["push-small-act-2-to-8-demonstrations"] == "contradicted"
    assert statuses["push-small-act-4-to-10-demonstrations"] == "observed-once"


def test_environments_are_not_compared_with_each_other(ledger, workdir):
    growth(ledger, workdir, "a")
    growth(ledger, workdir, "b", seed=1, evaluate=EvaluatePlan(env={"type": "other"}))
    assert [one.status for one in lessons(comparisons(read_facts(ledger)))] == ["observed-once"] * 2


def test_a_run_that_started_from_another_is_not_independent(ledger, workdir):
    growth(ledger, workdir, "a")
    growth(ledger, workdir, "b", seed=1)
    first, second = read_facts(ledger)
    (lesson,) = lessons(comparisons([first, replace(second, origin=origin(run="a"))]))
    assert lesson.status == "observed-once"


def test_a_candidate_is_compared_with_the_baseline_of_its_gate_not_with_the_cycle_before(
    ledger, workdir
):
    PlayedRun(ledger, workdir, "a").play(
        Cycle(demos=2, successes=even(5, "push"), decision="baseline"),
        Cycle(demos=8, successes=even(6, "push"), verdict="inconclusive"),
        Cycle(demos=25, successes=even(18, "push"), verdict="better", decision="promote"),
    )
    spans = [one.span for one in comparisons(read_facts(ledger))]
    assert spans == [(2, 8), (2, 25)]


def test_the_gate_of_a_single_task_is_about_that_task(ledger, workdir):
    PlayedRun(ledger, workdir, "a").play(
        Cycle(demos=2, successes=even(5, "push"), decision="baseline"),
        Cycle(demos=8, successes=even(18, "push"), verdict="inconclusive"),
    )
    (lesson,) = taught(ledger).values()
    assert "; the gate: no difference shown (5 won, 0 lost of 50 pairs)" in lesson.text
    assert lesson.comparisons[0].direction == 0, "the gate decides, not the fixed block"


def test_a_task_that_vetoed_a_gate_became_worse(ledger, workdir):
    PlayedRun(ledger, workdir, "a").play(
        Cycle(demos=2, successes=even(15), decision="baseline"),
        Cycle(
            demos=8,
            successes={"push": 18, "pick-place": 12},
            verdict="inconclusive",
            worse=("pick-place",),
        ),
    )
    found = taught(ledger)
    lesson = found["pick-place-small-act-2-to-8-demonstrations"]
    assert lesson.comparisons[0].direction == -1
    assert "worse, as the gate has shown (0 won, 3 lost; exact p = 0.25" in lesson.text
    assert "the gate over all tasks: better, but worse in pick-place (5 won" in lesson.text
    assert found["all-small-act-4-to-16-demonstrations"].comparisons[0].direction == 0


def test_a_run_with_a_dataset_and_an_environment_of_its_own_teaches_too(ledger, workdir):
    PlayedRun(
        ledger,
        workdir,
        "pusht",
        tasks=("pusht",),
        collect=DatasetSource(repo_id="lerobot/pusht", tasks=("Push the T.",)),
        evaluate=EvaluatePlan(env={"type": "pusht"}),
        ladder=(Rung(name="diffusion", policy_type="diffusion"),),
    ).play(
        Cycle(
            demos=200, successes={"pusht": 3}, decision="baseline", text={"pusht": "Push the T."}
        ),
        Cycle(
            demos=200,
            successes={"pusht": 15},
            decision="promote",
            verdict="better",
            text={"pusht": "Push the T."},
        ),
    )
    (lesson,) = taught(ledger).values()
    assert lesson.headline == "1000 → 2000 training steps in pusht (diffusion): 15 % → 75 %"


def test_a_run_of_another_version_is_left_out(ledger, workdir):
    growth(ledger, workdir, "a")
    ledger.create_run("new", {"name": "new", "field": "of the future"})
    assert [one.run for one in read_facts(ledger)] == ["a"]


def test_equal_runs_with_unequal_results_disagree(ledger, workdir):
    growth(ledger, workdir, "a", high=19)
    growth(ledger, workdir, "b", seed=1, high=5)
    measured = [c.measured["push"] for run in read_facts(ledger) for c in run.cycles]
    (found,) = disagreements(measured)
    assert found.text == (
        "With 8 demonstrations of push and 1000 training steps of small-act, run b reached 25 % "
        "and run a 95 %: more than chance explains (Fisher's exact p < 0.001, not adjusted)."
    )


@pytest.mark.parametrize("value", [[], "x", None])
def test_a_broken_config_in_the_ledger_stops_no_other_run(ledger, workdir, value):
    ledger.create_run("bad", {"name": value})
    growth(ledger, workdir, "a")
    assert [one.run for one in read_facts(ledger)] == ["a"]
