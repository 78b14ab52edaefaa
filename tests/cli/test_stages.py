"""Stages as commands: their checkpoints, and compare."""

import json
import time

import pytest

from lefleet.cli import progress, stages
from lefleet.cli.commands import CollectExpertCommand, EvaluateCommand, ImproveCommand, TrainCommand
from lefleet.cli.stages import _request
from lefleet.errors import BadInput
from lefleet.records import EvaluateRequest, ExpertDemos, ImproveRequest, TrainRequest
from tests.stages.test_outcomes import EVALUATIONS

KEYS = {"verdict", "pairs", "wins", "losses", "e_value", "p_value", "difference", "interval"}


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "results.csv"
    rows = "".join(f"{number},pick,1,{number % 2}\n" for number in range(40))
    path.write_text("trial,task,a,b\n" + rows)
    return path


def test_a_file_is_judged_with_a_sentence_and_a_plot(lefleet, results, tmp_path):
    code, out, _ = lefleet("compare", "--from", "results.csv", "--out", "answer")
    assert code == 0
    assert out.startswith("A is better than B: of 15 pairs, A won 8 and lost 0.")
    assert (tmp_path / "answer" / "evidence.png").stat().st_size > 1000
    assert (
        json.loads((tmp_path / "answer" / "record.json").read_text())["gate"]["verdict"] == "better"
    )


def test_json_has_what_a_script_needs(lefleet, results):
    code, out, _ = lefleet("compare", "--from", "results.csv", "--json")
    found = json.loads(out)["gate"]
    assert code == 0
    assert found.keys() >= KEYS
    assert found["verdict"] == "better"
    assert found["p_value"] <= 0.05


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "a, b: two checkpoints are needed"),
        (("one",), "a, b: two checkpoints are needed"),
        (("x", "y", "--from", "results.csv"), "a: it has no effect with --from"),
        (("--from", "results.csv", "--tasks", "push"), "tasks: it has no effect with --from"),
        (("--from", "results.csv", "--seed", "600000000"), "seed: it has no effect with --from"),
        (("--from", "results.csv", "--seed", "0"), "seed: it has no effect with --from"),
        (
            ("--from", "results.csv", "--max-pairs", "39"),
            "results.csv has 40 pairs, more than 39. Give --max-pairs 40 or more",
        ),
        (("--from", "nothing.csv"), "from: nothing.csv does not exist"),
        (("--from", "results.csv", "--alpha", "0"), "alpha:"),
        (("--from", "results.csv", "--alpha", "1"), "alpha:"),
        (("--from", "results.csv", "--min-effect", "2"), "min_effect:"),
        (("--from", str(EVALUATIONS / "weak")), "two eval_info.json are needed, got 1"),
        (("--from", "results.csv", str(EVALUATIONS / "weak")), "results.csv is not an eval_info"),
        (("--from", "results.csv", "--restart"), "restart: it has no effect with --from"),
        (("--from", "results.csv", "--same-seeds"), "same_seeds: it has no effect with a CSV"),
        (("--from", "results.csv", "--env", "type", "pusht"), "env: it has no effect with --from"),
        ((".", ".", "--same-seeds"), "same_seeds: it has no effect without --from"),
        (("demo:0", "blessed"), "a: there is no run called demo in"),
        (("nowhere", "nothing"), "a: nowhere does not exist"),
        ((".", "nothing"), "b: nothing does not exist"),
        ((".", "."), "a:"),
        ((".", ".", "--max-pairs", "0"), "max_pairs"),
        ((".", ".", "--alpha", "1"), "alpha"),
        ((".", ".", "--seed", "7"), "seed: 7 is reserved for the data and the evaluations of runs"),
        ((".", ".", "--tasks", "juggle"), "juggle"),
    ],
)
def test_bad_input_exits_2_and_leaves_nothing(lefleet, results, tmp_path, arguments, words):
    code, out, err = lefleet("compare", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert [path.name for path in tmp_path.iterdir()] == ["results.csv"]


def test_pairs_that_are_still_to_come_keep_the_question_open(lefleet, tmp_path):
    rows = "".join(f"{number},pick,1,1\n" for number in range(10))
    (tmp_path / "few.csv").write_text("trial,task,a,b\n" + rows)
    _, out, _ = lefleet("compare", "--from", "few.csv", "--max-pairs", "100")
    assert out.startswith("No clear answer yet, 100 pairs are planned: of 10 pairs")


def test_fewer_pairs_than_a_look_needs_give_no_evidence_and_no_plot(lefleet, tmp_path):
    (tmp_path / "few.csv").write_text("trial,task,a,b\n1,pick,1,0\n2,pick,1,0\n")
    code, out, _ = lefleet("compare", "--from", "few.csv", "--max-pairs", "100")
    assert code == 0
    assert "p = 1." in out
    assert "evidence.png" not in out


def test_an_answer_from_a_file_overwrites_nothing_else(lefleet, results, tmp_path):
    assert lefleet("compare", "--from", "results.csv", "--out", "answer")[0] == 0
    assert lefleet("compare", "--from", "results.csv", "--out", "answer", "--alpha", "0.01")[0] == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "record.json").write_text("precious")
    code, _, err = lefleet("compare", "--from", "results.csv", "--out", "mine")
    assert (code, "out:" in err or "record.json" in err) == (2, True)
    assert (tmp_path / "mine" / "record.json").read_text() == "precious"


def test_digests_are_named_while_they_are_computed(lefleet, tmp_path, monkeypatch):
    def find_checkpoint(name, field):
        time.sleep(0.5)
        raise BadInput("a: enough.")

    monkeypatch.setattr(progress, "_PHASE_S", 0.01)
    monkeypatch.setattr(stages, "find_checkpoint", find_checkpoint)
    _, _, err = lefleet("compare", ".", ".")
    assert err.startswith("compare: computing digests, 0 s\n")
    assert err.endswith("lefleet: a: enough.\n")


def test_two_evaluations_are_judged_and_plotted(lefleet, tmp_path):
    files = ("--from", str(EVALUATIONS / "strong"), str(EVALUATIONS / "weak"))
    code, out, _ = lefleet("compare", *files, "--out", "answer")
    assert code == 0
    assert out.startswith("No clear answer: of 16 pairs, A won 1 and lost 0")
    assert "about 120 new pairs show it 8 times in 10" in out
    assert "Compared as single trials" in out
    assert (tmp_path / "answer" / "evidence.png").stat().st_size > 1000
    # The same question again, and another one about the same files.
    assert lefleet("compare", *files, "--out", "answer", "--same-seeds")[0] == 0
    swapped = ("--from", *files[:0:-1], "--out", "answer")
    assert lefleet("compare", *swapped)[0] == 2


def test_a_stage_takes_a_checkpoint_by_the_name_of_its_run(blessed_workdir, tmp_path):
    where = {"out": tmp_path, "workdir": blessed_workdir}
    blessed = str(blessed_workdir / "demo/cycle_0/train")
    commands = (
        EvaluateCommand(request=EvaluateRequest(checkpoint="demo"), **where),
        ImproveCommand(request=ImproveRequest(checkpoint="blessed", demos="d"), **where),
    )
    assert [_request(command).checkpoint for command in commands] == [blessed, blessed]
    train = TrainCommand(request=TrainRequest(dataset="d", init="demo:blessed"), **where)
    assert _request(train).init == blessed


def test_a_stage_without_a_checkpoint_is_asked_for_as_it_is(tmp_path):
    fresh = TrainRequest(dataset="d")
    assert _request(TrainCommand(request=fresh, out=tmp_path, workdir=tmp_path)) == fresh
    demos = ExpertDemos()
    assert _request(CollectExpertCommand(request=demos, out=tmp_path)) == demos


SELECT = ("collect", "dataset", "--root", "{data}", "--out", "chosen")


def select(lefleet, demos, *arguments: str) -> tuple[int, str, str]:
    return lefleet(*(one.format(data=demos / "dataset") for one in SELECT), *arguments)


def test_a_stage_starts_anew_and_what_was_there_is_kept(lefleet, demos, tmp_path):
    select(lefleet, demos, "--tasks", "push")
    code, _, err = select(lefleet, demos, "--tasks", "door-open")
    assert code == 2
    assert "start anew with --restart" in err
    code, out, err = select(lefleet, demos, "--tasks", "door-open", "--restart", "--json")
    assert code == 0
    assert json.loads(out)["tasks"] == {"open the door": 5}
    assert f"what it held is in {tmp_path / 'chosen-before-1'}." in err
    before = json.loads((tmp_path / "chosen-before-1" / "record.json").read_text())
    assert before["tasks"] == {"push the puck to the goal": 5}


def test_a_restart_that_is_refused_changes_nothing(lefleet, demos, tmp_path):
    select(lefleet, demos, "--tasks", "push")
    code, _, err = select(lefleet, demos, "--tasks", "juggle", "--restart")
    assert code == 2
    assert "no episode of juggle" in err
    assert [path.name for path in tmp_path.iterdir()] == ["chosen"]
    assert select(lefleet, demos, "--tasks", "push")[0] == 0


def test_folders_of_a_run_are_not_restarted_by_hand(lefleet, demos, tmp_path):
    run = tmp_path / "runs" / "mine"
    (run / "cycle_0").mkdir(parents=True)
    (run / "events.jsonl").touch()
    folder = run / "cycle_0" / "collect"
    select(lefleet, demos, "--tasks", "push", "--out", str(folder))
    code, _, err = select(lefleet, demos, "--tasks", "push", "--out", str(folder), "--restart")
    assert code == 2
    assert "belongs to the run mine" in err
    assert "lefleet resume mine" in err
    assert (folder / "record.json").exists()
