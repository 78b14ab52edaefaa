"""Ingest: pages from the ledger alone, whatever names it holds and whoever edits meanwhile."""

import json
import os
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest

from lefleet.knowledge import ingest, update
from lefleet.knowledge.bundle import FOLDER, page_files, shipped
from lefleet.knowledge.fences import split
from lefleet.knowledge.front_matter import read_page
from lefleet.records import ApprovalAnswer, DatasetSource, EvaluatePlan, Rung
from tests.knowledge.played import Cycle, PlayedRun, demo_like, even
from tests.knowledge.test_markup import HOSTILE
from tests.ledger.ledgers import REQUEST

PAGES = ["experiments/demo.md", "policies/small-act.md"]
PAGES += ["tasks/door-open.md", "tasks/pick-place.md", "tasks/push.md"]


def page(workdir, path: str) -> str:
    return (workdir / FOLDER / path).read_text()


def validate_all(workdir) -> None:
    """Every page against the schema that lies beside it, its fences, and its provenance."""
    schema = json.loads((workdir / FOLDER / "schema.json").read_text())
    for path in page_files(workdir / FOLDER):
        found = read_page(page(workdir, path))
        jsonschema.validate(found.fields, schema)
        assert split(found.body)


def test_a_run_has_pages_for_itself_its_tasks_and_its_policy(ledger, workdir):
    demo_like(ledger, workdir)
    assert sorted(ingest(ledger, workdir, "demo")) == PAGES
    assert page_files(workdir / FOLDER) == PAGES
    validate_all(workdir)


def test_a_second_ingest_changes_nothing(ledger, workdir):
    demo_like(ledger, workdir)
    ingest(ledger, workdir, "demo")
    before = {path: (workdir / FOLDER / path).stat().st_mtime_ns for path in PAGES}
    assert ingest(ledger, workdir, "demo") == []
    assert update(ledger, workdir) == []
    assert {path: (workdir / FOLDER / path).stat().st_mtime_ns for path in PAGES} == before


def test_pages_depend_on_the_ledger_alone_not_on_when_they_are_written(ledger, workdir):
    run = PlayedRun(ledger, workdir, "demo")
    for number in range(3):
        run.play(Cycle(demos=2 + number, successes=even(5 * number), decision="baseline"))
        ingest(ledger, workdir, "demo")
    step_by_step = {path: page(workdir, path) for path in page_files(workdir / FOLDER)}
    shutil.rmtree(workdir / FOLDER)
    ingest(ledger, workdir, "demo")
    assert {path: page(workdir, path) for path in page_files(workdir / FOLDER)} == step_by_step


def test_schema_and_explanation_are_beside_the_pages(ledger, workdir):
    demo_like(ledger, workdir)
    ingest(ledger, workdir, "demo")
    for name in ("schema.json", "KNOWLEDGE.md"):
        assert (workdir / FOLDER / name).read_bytes() == shipped(name)
    jsonschema.Draft202012Validator.check_schema(json.loads(shipped("schema.json")))


def test_provenance_resolves_to_rows_of_the_run(ledger, workdir):
    demo_like(ledger, workdir)
    ingest(ledger, workdir, "demo")
    for path in PAGES:
        front = read_page(page(workdir, path)).front
        events = [one for source in front.provenance for one in source.events]
        assert len(events) == 14
        assert set(ledger.sections.runs_of_events(events).values()) == {"demo"}
        assert len(ledger.sections.runs_of_events(events)) == 14


def test_links_between_pages_and_to_evidence_lead_to_where_it_is(ledger, workdir):
    demo_like(ledger, workdir)
    ingest(ledger, workdir, "demo")
    targets = set()
    for path in PAGES:
        for target in re.findall(r"\]\(([^)]+)\)", page(workdir, path)):
            there = (workdir / FOLDER / path).parent / unquote(target.partition("#")[0])
            targets.add(os.path.relpath(there, workdir))
    own = {f"{FOLDER}/{path}" for path in (*PAGES, "KNOWLEDGE.md")}
    assert own <= targets
    evidence = targets - own
    assert all(Path(one).parts[0] == "demo" for one in evidence)
    assert {
        "demo/success.png",
        "demo/evidence_cycle_2.png",
        "demo/cycle_1/gate/record.json",
        "demo/cycle_0/evaluate/videos/19.mp4",
        "demo/events.jsonl",
    } <= evidence


def test_the_page_of_a_run_tells_what_was_tried_and_why(ledger, workdir):
    person = ApprovalAnswer(approved=False, who="anna", at=1.8e9, why="it shakes | a lot")
    PlayedRun(ledger, workdir, "demo").play(
        Cycle(demos=2, successes=even(3), decision="baseline", proposal="2 for each task"),
        Cycle(demos=8, successes=even(18), verdict="better", answer=person),
    ).end()
    ingest(ledger, workdir, "demo")
    text = page(workdir, "experiments/demo.md")
    assert "Proposed by schedule: 2 for each task" in text
    assert "| 1 | 16 | small-act 2000 steps, loss 0.25 | 90 % (76 to 97) | iterate |" in text
    assert "The gate over all tasks: better at level 0.03 (5 won, 0 lost of 50 pairs)" in text
    said = "promote rejected by anna on 2027-01-15 08:00 UTC: “it shakes \\| a lot”."
    assert f"Cycle 1: {said} Asked: Promote the checkpoint of cycle 1?" in text
    assert said in page(workdir, "policies/small-act.md")
    assert "**The blessed checkpoint is that of cycle 0: 15 % of 40 episodes**" in text


def test_a_run_under_way_tells_where_it_is_and_links_no_plot_yet(ledger, workdir):
    run = PlayedRun(ledger, workdir, "demo")
    run.play(Cycle(demos=2, successes=even(3), decision="baseline"))
    attempt = ledger.start_attempt("demo", 1, "collect", REQUEST)
    ledger.end_attempt(attempt, "failed", "the disk is full")
    ingest(ledger, workdir, "demo")
    text = page(workdir, "experiments/demo.md")
    assert "### Cycle 1: under way" in text
    assert "collect, attempt 1 failed: the disk is full" in text
    assert "success.png" not in text
    assert "The run continues by itself." in text


def test_a_run_about_to_end_is_told_as_ended(ledger, workdir):
    run = PlayedRun(ledger, workdir, "demo")
    run.play(Cycle(demos=2, successes=even(3), decision="baseline"))
    ending = ledger.run("demo")._replace(state="finished", reason="all cycles are done")
    ingest(ledger, workdir, "demo", ending)
    assert "Finished: all cycles are done." in page(workdir, "experiments/demo.md")
    run.end()
    assert ingest(ledger, workdir, "demo") == []


def test_a_denial_and_an_open_question_are_told(ledger, workdir):
    PlayedRun(ledger, workdir, "demo").play(Cycle(demos=2, successes=even(3)))
    denial = {
        "cycle": 0,
        "rule": "caps.steps",
        "reason": "2000 is above 1000",
        "remedy": "Lower it",
    }
    ledger.add_event("demo", "denied", denial)
    ledger.approvals.ask(
        "demo",
        "constitution",
        "d",
        cycle=0,
        text="Go on under the changed rules?",
        evidence={},
        timeout_s=0.0,
        on_timeout="reject",
    )
    ingest(ledger, workdir, "demo")
    text = page(workdir, "experiments/demo.md")
    assert "Denied by the constitution: caps.steps, 2000 is above 1000, Lower it" in text
    assert "`lefleet approve demo`" in text


def test_a_run_without_evidence_has_no_page(ledger, workdir):
    PlayedRun(ledger, workdir, "demo")
    assert ingest(ledger, workdir, "demo") == []
    assert ingest(ledger, workdir, "unknown") == []


def test_an_evaluation_that_names_no_task_has_only_the_page_of_its_run(ledger, workdir):
    PlayedRun(ledger, workdir, "demo").play(Cycle(demos=2, successes={}, decision="baseline"))
    assert ingest(ledger, workdir, "demo") == ["experiments/demo.md"]


def test_data_that_policies_made_is_counted_apart(ledger, workdir):
    PlayedRun(ledger, workdir, "demo").play(
        Cycle(demos=4, successes=even(5, "push"), decision="baseline", made={"push": 3}),
        Cycle(demos=8, successes=even(18, "push"), decision="promote", verdict="better"),
    )
    ingest(ledger, workdir, "demo")
    assert "| 8 + 3 correct | 90 % (68 to 99) |" in page(workdir, "tasks/push.md")
    text = page(workdir, "experiments/demo.md")
    assert "The blessed policy made data: 3 of 6 attempts kept, 3 corrections added." in text


def test_a_task_that_the_expert_finds_hard_is_told_without_a_false_count(ledger, workdir):
    """Attempts are made in rounds: what was not kept need not have failed."""
    PlayedRun(ledger, workdir, "demo").play(
        Cycle(demos=17, attempts=22, successes=even(3, "push"), decision="baseline")
    )
    ingest(ledger, workdir, "demo")
    assert "push took the expert 22 attempts for 17 demonstrations." in page(
        workdir, "experiments/demo.md"
    )
    told = "The expert does not always succeed either: it took 22 attempts for 17 demonstrations."
    assert told in page(workdir, "tasks/push.md")


def test_what_never_succeeded_says_where_to_look(ledger, workdir):
    run = PlayedRun(ledger, workdir, "demo").play(Cycle(demos=2, successes=even(0, "push")))
    run.end()
    ingest(ledger, workdir, "demo")
    assert "No checkpoint has ever succeeded" in page(workdir, "tasks/push.md")
    text = page(workdir, "experiments/demo.md")
    assert "**No checkpoint is blessed yet.**" in text
    assert "Why nothing works yet: [demo/diagnosis.md](../../demo/diagnosis.md)" in text


def test_a_run_with_its_own_dataset_and_environment_has_pages(ledger, workdir):
    text = "Push the T-shaped block onto the T-shaped target."
    PlayedRun(
        ledger,
        workdir,
        "pusht",
        tasks=("pusht",),
        collect=DatasetSource(repo_id="lerobot/pusht", tasks=(text,)),
        evaluate=EvaluatePlan(env={"type": "pusht"}),
        ladder=(Rung(name="diffusion", policy_type="diffusion"),),
    ).play(Cycle(demos=200, successes={"pusht": 3}, text={"pusht": text}))
    changed = ingest(ledger, workdir, "pusht")
    assert sorted(changed) == ["experiments/pusht.md", "policies/diffusion.md", "tasks/pusht.md"]
    assert "| 200 | 15 % (3 to 38) |" in page(workdir, "tasks/pusht.md")
    assert "Evaluated in type=pusht, seed 0." in page(workdir, "experiments/pusht.md")
    validate_all(workdir)


def test_words_of_an_environment_of_ones_own_are_not_translated(ledger, workdir):
    """A task that is called as one of MetaWorld's is not that task."""
    PlayedRun(
        ledger,
        workdir,
        "mine",
        tasks=("drawer-open", "reach"),
        collect=DatasetSource(repo_id="me/arm", tasks=("drawer-open", "reach")),
        evaluate=EvaluatePlan(env={"type": "mine"}),
    ).play(Cycle(demos=9, successes=even(3, "drawer-open", "reach"), text={"drawer-open": "pull"}))
    ingest(ledger, workdir, "mine")
    text = page(workdir, "tasks/drawer-open.md")
    assert "open the drawer" not in text
    assert "| ? | 15 %" in text, "data with other words is not taken for its own"


def test_a_later_run_changes_the_status_on_the_pages_of_an_earlier_one(ledger, workdir):
    demo_like(ledger, workdir, "first")
    ingest(ledger, workdir, "first")
    assert "\nstatus: observed-once\n" in page(workdir, "experiments/first.md")
    demo_like(ledger, workdir, "second", seed=1)
    changed = ingest(ledger, workdir, "second")
    assert "experiments/first.md" in changed
    for path in ("experiments/first.md", "tasks/push.md", "policies/small-act.md"):
        assert "\nstatus: replicated\n" in page(workdir, path)


def test_the_page_of_a_run_tells_its_own_numbers_and_who_contradicts_them(ledger, workdir):
    for name, seed, low, high in (("a", 0, 0, 18), ("b", 1, 19, 3)):
        PlayedRun(ledger, workdir, name, seed=seed).play(
            Cycle(demos=2, successes=even(low, "push"), continues=False),
            Cycle(demos=8, successes=even(high, "push"), continues=False),
        )
        ingest(ledger, workdir, name)
    of_a, of_b = (page(workdir, f"experiments/{name}.md") for name in "ab")
    assert "**2 → 8 demonstrations of push (small-act): 0 % → 90 %**" in of_a
    assert "**2 → 8 demonstrations of push (small-act): 95 % → 15 %**" in of_b
    assert "Contradicted in run b, cycle 1 (seed 1): 2 → 8 demonstrations of push" in of_a
    assert "\nstatus: contradicted\n" in of_a


@pytest.mark.parametrize("name", [name for name in HOSTILE if name and name != "\ud800"])
def test_hostile_names_break_no_page_and_leave_no_folder(ledger, workdir, name):
    person = ApprovalAnswer(approved=True, who=name, at=1.8e9, why=name)
    run = PlayedRun(ledger, workdir, "demo", ladder=(Rung(name=name),))
    run.play(
        Cycle(
            demos=2,
            successes={name: 3, "push": 4},
            decision="baseline",
            proposal=name,
            text={name: name},
            answer=person,
        )
    )
    ledger.end_attempt(ledger.start_attempt("demo", 1, "collect", REQUEST), "failed", name)
    run.end("failed", name)
    outside = {path for path in workdir.parent.rglob("*") if FOLDER not in path.parts}
    assert len(ingest(ledger, workdir, "demo")) == 4
    assert {path for path in workdir.parent.rglob("*") if FOLDER not in path.parts} == outside
    validate_all(workdir)
    for path in page_files(workdir / FOLDER):
        assert Path(path).parent.name in ("tasks", "policies", "experiments")
        found = read_page(page(workdir, path))
        assert found.front.status == "observed-once"
        assert "<script" not in found.body
        assert all(line.isprintable() for line in found.body.split("\n"))
    assert ingest(ledger, workdir, "demo") == []


def test_an_empty_task_name_has_a_page_too(ledger, workdir):
    PlayedRun(ledger, workdir, "demo").play(Cycle(demos=2, successes={" ": 3, "push": 4}))
    assert len(ingest(ledger, workdir, "demo")) == 4
    validate_all(workdir)
