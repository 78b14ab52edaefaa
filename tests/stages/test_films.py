"""Pairs of a real gate, run again with the camera on."""

import json
import shutil
from pathlib import Path

import av
import msgspec
import pytest

from lefleet.errors import BadInput
from lefleet.sim.render import GL_REMEDY, OFF
from lefleet.stages import run_stage
from lefleet.stages.environment import begun_tasks
from lefleet.stages.films import (
    FILMS,
    JudgedPair,
    ask,
    chosen_pairs,
    claimed,
    film_pairs,
    lock_file,
    read_film,
)
from lefleet.stages.folder import RECORD, REQUEST
from lefleet.stages.run import execute
from lefleet.stages.verdict import Trial, gate_order
from tests.gates import copied, request_of


@pytest.fixture
def gate(comparison, tmp_path):
    """Its own copy of a gate that nobody has filmed."""
    return copied(comparison, tmp_path / "gate")


def judged(gate: Path) -> list[JudgedPair]:
    lines = [json.loads(line) for line in (gate / "episodes.jsonl").read_text().splitlines()]
    ended = {(one["policy"], Trial(one["task"], one["seed"])): one["success"] for one in lines}
    pairs = json.loads((gate / RECORD).read_text())["gate"]["pairs"]
    order = gate_order(request_of(gate), begun_tasks(request_of(gate), gate))[:pairs]
    return [JudgedPair(one, ended["candidate", one], ended["baseline", one]) for one in order]


def film(gate: Path, *trials: Trial) -> list:
    with claimed(gate, trials) as mine:
        asked = [ask(gate, trial, "anna") for trial in mine]
        return film_pairs(request_of(gate), gate, asked)


def frames(path: Path) -> int:
    with av.open(str(path)) as video:
        return sum(1 for _ in video.decode(video=0))


def test_episodes_of_a_film_equal_those_of_the_gate(gate):
    """Two pairs of one batch, and one of another: in all, rows that other episodes had beside. One
    whose videos were removed can be asked for again."""
    first, second, last = (judged(gate)[at] for at in (0, 1, -1))
    made = film(gate, first.trial, second.trial, last.trial)
    assert [one.trial for one in made] == [first.trial, second.trial, last.trial]
    for one, pair in zip(made, (first, second, last), strict=True):
        assert (one.state, one.who, one.problem) == ("made", "anna", "")
        assert (one.candidate.success, one.baseline.success) == (pair.candidate, pair.baseline)
        assert one.candidate.is_same
        assert one.baseline.is_same
        for episode in (one.candidate, one.baseline):
            assert frames(gate / FILMS / episode.video) == episode.length // 2 + 1
        assert read_film(gate, one.task, one.seed) == one
    (gate / FILMS / made[0].baseline.video).unlink()
    assert read_film(gate, *first.trial) is None


def test_a_film_says_where_it_differs_from_the_gate(gate):
    """As after an update of a library that rounds otherwise."""
    trial = judged(gate)[0].trial
    episodes = gate / "episodes.jsonl"
    lines = [json.loads(line) for line in episodes.read_text().splitlines()]
    for line in lines:
        if (line["policy"], line["task"], line["seed"]) == ("baseline", *trial):
            line["length"] += 1
    episodes.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (made,) = film(gate, trial)
    assert (made.state, made.candidate.is_same, made.baseline.is_same) == ("made", True, False)


def test_the_end_of_a_gate_brings_films_and_the_same_record(gate, comparison):
    """The gate was begun by a lefleet that knew no films, and is resumed."""
    before = json.loads((gate / REQUEST).read_text())
    del before["films"]
    (gate / REQUEST).write_text(json.dumps(before))
    (gate / RECORD).unlink()
    updates = []
    asked = msgspec.structs.replace(request_of(gate), films=2)
    run_stage(asked, gate, updates.append)
    assert (gate / RECORD).read_bytes() == (comparison / RECORD).read_bytes()
    trials = chosen_pairs(judged(gate), 2)
    made = [read_film(gate, *trial) for trial in trials]
    assert [one.state for one in made] == ["made", "made"]
    assert all(one.candidate.success != one.baseline.success for one in made)
    assert "filming pairs" in [one.detail for one in updates]
    # Another number of films is the same question.
    assert run_stage(msgspec.structs.replace(asked, films=5), gate).gate.pairs == len(judged(gate))
    assert {file.name for file in (gate / FILMS).glob("*.mp4")} == {
        episode.video for one in made for episode in (one.candidate, one.baseline)
    }


def test_a_gate_of_an_older_lefleet_ends_as_it_was_asked(gate, comparison):
    before = json.loads((gate / REQUEST).read_text())
    del before["films"]
    (gate / REQUEST).write_text(json.dumps(before))
    (gate / RECORD).unlink()
    assert execute(gate) == 0
    assert (gate / RECORD).read_bytes() == (comparison / RECORD).read_bytes()
    assert not (gate / FILMS).exists()


def test_without_graphics_a_gate_ends_and_its_films_say_why(gate, comparison, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", OFF)
    (gate / RECORD).unlink()
    run_stage(msgspec.structs.replace(request_of(gate), films=1), gate)
    assert (gate / RECORD).read_bytes() == (comparison / RECORD).read_bytes()
    told = read_film(gate, *chosen_pairs(judged(gate), 1)[0])
    assert told.state == "failed"
    assert "no OpenGL library" in told.problem
    assert GL_REMEDY in told.problem
    assert list((gate / FILMS).glob("*.mp4")) == []


def test_a_film_that_took_the_gate_down_is_not_tried_again(gate, comparison):
    """A request without a process: the stage was killed while it filmed."""
    trial = chosen_pairs(judged(gate), 1)[0]
    with claimed(gate, [trial]):
        ask(gate, trial, "lefleet")
        assert read_film(gate, *trial).state == "requested"
    (gate / RECORD).unlink()
    run_stage(msgspec.structs.replace(request_of(gate), films=1), gate)
    assert (gate / RECORD).read_bytes() == (comparison / RECORD).read_bytes()
    left = read_film(gate, *trial)
    assert left.state == "failed"
    assert "interrupted" in left.problem


@pytest.mark.parametrize("broken", [FILMS, "episodes"])
def test_nothing_that_befalls_a_film_fails_the_gate(gate, comparison, broken, monkeypatch):
    if broken == FILMS:
        (gate / FILMS).write_text("a file where the folder of films should be")
    else:
        monkeypatch.setattr("lefleet.stages.films.EPISODES", "missing.jsonl")
    (gate / RECORD).unlink()
    run_stage(msgspec.structs.replace(request_of(gate), films=1), gate)
    assert (gate / RECORD).read_bytes() == (comparison / RECORD).read_bytes()


def test_a_checkpoint_that_has_changed_is_not_filmed(gate, weak, tmp_path):
    other = tmp_path / "other"
    weights = next(weak.glob("training/checkpoints/*/pretrained_model"))
    shutil.copytree(weights.resolve(), other)
    changed = msgspec.structs.replace(request_of(gate), checkpoint=str(other))
    trial = judged(gate)[0].trial
    with claimed(gate, [trial]):
        (told,) = film_pairs(changed, gate, [ask(gate, trial, "anna")])
    assert told.state == "failed"
    assert "checkpoint: its content has changed" in told.problem
    assert read_film(gate, *trial) == told


def test_a_film_that_another_process_makes_is_left_to_it(gate):
    trial = judged(gate)[0].trial
    with claimed(gate, [trial]) as mine, claimed(gate, [trial]) as others:
        assert (mine, others) == ([trial], [])


def test_a_damaged_file_is_a_film_that_failed(gate):
    trial = judged(gate)[0].trial
    with claimed(gate, [trial]):
        ask(gate, trial, "anna")
    next((gate / FILMS).glob("*.json")).write_text("{")
    assert read_film(gate, *trial).state == "failed"


def test_what_lerobot_eval_ran_for_an_older_version_cannot_be_filmed(gate):
    stock = msgspec.structs.replace(request_of(gate), env={"type": "libero"})
    with pytest.raises(BadInput, match=r"lerobot-eval ran its episodes"):
        film_pairs(stock, gate, [])


@pytest.mark.parametrize("task", ["../../etc", "put the mug\non the plate", ".", "x" * 300, "ä"])
def test_any_task_has_a_file_in_the_folder_of_films(tmp_path, task):
    path = lock_file(tmp_path, Trial(task, 7))
    assert path.parent == tmp_path / FILMS
    assert path.resolve().parent == path.parent
    path.parent.mkdir()
    path.touch()


def test_tasks_with_similar_names_have_different_files(tmp_path):
    names = ["a b", "a-b", "a/b", "A-b", "a.b"]
    assert len({lock_file(tmp_path, Trial(name, 1)) for name in names}) == len(names)


def pairs(text: str) -> list[JudgedPair]:
    """One pair for each word, as `push+`: + won, - lost, = the same."""
    outcomes = {"+": (True, False), "-": (False, True), "=": (True, True)}
    words = enumerate(text.split())
    return [JudgedPair(Trial(one[:-1], seed), *outcomes[one[-1]]) for seed, one in words]


@pytest.mark.parametrize(
    ("of", "number", "seeds"),
    [
        ("a= a+ a- a+", 2, [1, 2]),
        ("a+ a- b- b+", 2, [0, 2]),
        ("a+ a+ b+ b+", 3, [0, 2, 1]),
        ("a- b- b-", 2, [0, 1]),
        ("a= b= a+", 2, [2, 1]),
        ("a= b= a+", 9, [2, 1, 0]),
        ("a+ b-", 0, []),
        ("", 2, []),
    ],
)
def test_pairs_that_differ_and_different_tasks_are_chosen_first(of, number, seeds):
    assert [trial.seed for trial in chosen_pairs(pairs(of), number)] == seeds
