"""compare as a command."""

import json

import msgspec
import pytest

from lefleet.cli.checkpoints import checkpoint_named
from lefleet.errors import BadInput
from lefleet.ledger import open_ledger
from lefleet.records import ExpertDemos
from tests.loop.states import config, decision, record

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
    assert out.startswith("A is better than B: of 15 pairs it won 8 and lost 0.")
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
        (("x", "y", "--from", "results.csv"), "a: a file of outcomes is judged by itself"),
        (("--from", "results.csv", "--tasks", "push"), "tasks: a file of outcomes"),
        (("--from", "results.csv", "--seed", "600000000"), "seed: a file of outcomes"),
        (("--from", "results.csv", "--max-pairs", "39"), "max_pairs: results.csv has 40 pairs"),
        (("--from", "nothing.csv"), "from: nothing.csv cannot be read"),
        (("--from", "results.csv", "--alpha", "0"), "alpha:"),
        (("--from", "results.csv", "--alpha", "1"), "alpha:"),
        (("--from", "results.csv", "--min-effect", "2"), "min_effect:"),
        (("demo:0", "blessed"), "has no ledger"),
        (("nowhere", "nothing"), "a: nowhere does not exist"),
        ((".", "nothing"), "b: nothing does not exist"),
        ((".", "."), "a:"),
        ((".", ".", "--max-pairs", "0"), "max_pairs"),
        ((".", ".", "--alpha", "1"), "alpha"),
        ((".", ".", "--seed", "7"), "seed: 7 is one of those that runs use"),
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
    assert out.startswith("No clear answer yet: 10 of 100 planned pairs")


def test_an_answer_from_a_file_overwrites_nothing_else(lefleet, results, tmp_path):
    assert lefleet("compare", "--from", "results.csv", "--out", "answer")[0] == 0
    assert lefleet("compare", "--from", "results.csv", "--out", "answer", "--alpha", "0.01")[0] == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "record.json").write_text("precious")
    code, _, err = lefleet("compare", "--from", "results.csv", "--out", "mine")
    assert (code, "out:" in err or "record.json" in err) == (2, True)
    assert (tmp_path / "mine" / "record.json").read_text() == "precious"


@pytest.fixture
def ledger(tmp_path):
    """Two runs, of which only the older one has a blessed checkpoint, and an unreadable one."""
    ledger = open_ledger(tmp_path)
    for name in ("old", "new"):
        ledger.create_run(name, msgspec.to_builtins(config(name=name)))
    ledger.create_run("foreign", {"name": "foreign", "colour": "red"})
    attempt = ledger.start_attempt("old", 0, "train", ExpertDemos())
    ledger.commit_stage(attempt, record(0, "train"))
    ledger.record_decision("old", decision(0, "baseline", "c0"))
    (tmp_path / "old" / "cycle_0" / "train").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("name", ["blessed", "old:blessed", "old"])
def test_a_blessed_checkpoint_is_found_by_name(ledger, name):
    assert checkpoint_named(name, ledger, "a") == "/c0"


def test_a_checkpoint_is_found_by_run_and_cycle(ledger):
    assert checkpoint_named("old:0", ledger, "a") == str(ledger / "old/cycle_0/train")


def test_a_path_stays_a_path_and_a_hub_id_a_hub_id(ledger):
    assert checkpoint_named(str(ledger), ledger, "a") == str(ledger)
    assert checkpoint_named("user/policy", ledger, "a") == "user/policy"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("old:1", "trained no checkpoint in cycle 1"),
        ("old:last", "last is no cycle"),
        ("new:blessed", "new has no blessed checkpoint"),
        ("new", "new has no blessed checkpoint"),
        ("foreign", "this lefleet cannot read the config of foreign"),
        ("other", "other does not exist"),
        ("other:0", "there is no run called other"),
    ],
)
def test_a_name_that_means_nothing_is_refused(ledger, name, words):
    with pytest.raises(BadInput, match=words):
        checkpoint_named(name, ledger, "a")
