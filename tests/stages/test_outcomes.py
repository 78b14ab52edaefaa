"""Outcomes recorded elsewhere to a verdict: CSV files, and two evaluations by lerobot-eval."""

import json
from pathlib import Path

import pytest

from lefleet.errors import BadInput
from lefleet.records import CompareOptions
from lefleet.stages.outcomes import compare_outcomes, interleaved
from lefleet.stages.verdict import PairOutcome


@pytest.fixture
def judge(tmp_path):
    def run(text: str, metric: str = "success", alpha: float = 0.05):
        path = tmp_path / "results.csv"
        path.write_text(text)
        return compare_outcomes([path], CompareOptions(alpha=alpha, metric=metric))

    return run


def paired(*rows: tuple, head: str = "trial,task,a,b") -> str:
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n"


def test_pairs_from_a_real_robot(judge):
    record = judge(paired(*[(number, "pick", 1, int(number % 4 == 0)) for number in range(30)]))
    assert (record.gate.verdict, record.gate.max_pairs, record.candidate) == ("better", 30, "a")
    assert record.gate.pairs == 10
    assert record.per_task["pick"].losses == 0


def test_all_rows_are_used_where_nothing_is_shown(judge):
    record = judge(paired(*[(number, "pick", 1, 1) for number in range(30)]))
    assert (record.gate.verdict, record.gate.ended, record.gate.pairs) == (
        "inconclusive",
        "exhausted",
        30,
    )


def test_single_trials_are_compared_in_the_order_they_were_run(judge):
    rows = [(number, "ab"[number % 2], int(number % 2 == 0)) for number in range(20)]
    record = judge(paired(*rows, head="trial,policy,success"))
    assert (record.gate.verdict, record.gate.wins, record.gate.losses) == (
        "better",
        record.gate.pairs,
        0,
    )
    assert "i-th" in record.note


def test_single_trials_are_matched_within_their_task(judge):
    rows = [
        (number, task, policy, int(policy == "a"))
        for task in ("pick", "pour")
        for policy in ("a", "b")
        for number in range(10)
    ]
    record = judge(paired(*rows, head="trial,task,policy,success"))
    assert record.gate.verdict == "better"
    assert record.per_task.keys() == {"pick", "pour"}


def test_a_file_that_lists_one_task_after_the_other_is_not_judged_by_the_first(judge):
    rows = [(number, "pick", 1, 0) for number in range(30)]
    rows += [(number, "place", 0, 1) for number in range(60)]
    assert judge(paired(*rows)).gate.verdict == "worse"


def test_interleaving_keeps_shares_and_does_not_look_at_outcomes():
    blocked = [PairOutcome("x", n % 2 == 0, False, 0.0, 0.0) for n in range(20)]
    blocked += [PairOutcome("y", True, True, 1.0, 1.0) for _ in range(40)]
    order = [outcome.task for outcome in interleaved(blocked)]
    flipped = [outcome._replace(candidate=not outcome.candidate) for outcome in blocked]
    assert [outcome.task for outcome in interleaved(flipped)] == order
    for count in range(6, 60, 6):
        assert abs(order[:count].count("x") - count / 3) <= 2


def test_pairs_that_were_not_needed_are_counted(judge):
    record = judge(paired(*[(number, "pick", 1, 0) for number in range(40)]))
    assert f"{40 - record.gate.pairs} more pairs were not needed" in record.note


def test_progress_counts_where_nobody_succeeds(judge):
    rows = [(number, "pick", 0.8 + number % 3 / 100, 0.3) for number in range(40)]
    record = judge(paired(*rows), metric="progress")
    assert (record.gate.verdict, record.gate.wins) == ("better", 0)
    assert record.gate.difference == pytest.approx(0.51, abs=0.02)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan")])
def test_a_level_that_is_none_is_refused(judge, alpha):
    with pytest.raises(BadInput, match="alpha"):
        judge(paired((1, "p", 1, 0)), alpha=alpha)


EVALUATIONS = Path(__file__).parent / "evaluations"
"""Written by lerobot-eval: two checkpoints of one training, 8 episodes of 2 tasks, one seed."""


def evaluations(*names: str | Path, **asked):
    paths = [EVALUATIONS / name for name in names]
    same_seeds = asked.pop("same_seeds", False)
    return compare_outcomes(paths, CompareOptions(**asked), same_seeds=same_seeds)


@pytest.fixture
def evaluation(tmp_path):
    """An eval_info.json with these successes by task."""

    def write(name: str, reward: float = 0.0, **successes: list[bool]) -> Path:
        tasks = [
            {
                "task_group": task,
                "task_id": 0,
                "metrics": {"successes": of, "max_rewards": [reward] * len(of)},
            }
            for task, of in successes.items()
        ]
        (tmp_path / name).mkdir()
        path = tmp_path / name / "eval_info.json"
        path.write_text(json.dumps({"per_task": tasks}))
        return path

    return write


@pytest.mark.parametrize("end", ["", "eval_info.json"])
def test_two_evaluations_are_compared_episode_by_episode_within_a_task(end):
    record = evaluations(Path("strong", end), Path("weak", end))
    assert (record.gate.verdict, record.gate.wins, record.gate.losses) == ("inconclusive", 1, 0)
    assert {task: one.pairs for task, one in record.per_task.items()} == {
        "push-0": 8,
        "door-open-0": 8,
    }
    assert record.per_task["door-open-0"].baseline.successes == 7
    assert record.candidate_path == str(EVALUATIONS / "strong" / "eval_info.json")


def test_evaluations_are_single_trials_unless_their_seeds_are_said_to_be_the_same():
    assert evaluations("strong", "weak").note.startswith("Compared as single trials")
    paired = evaluations("strong", "weak", same_seeds=True)
    assert paired.note.startswith("Paired as --same-seeds says")
    assert "was not checked" in paired.note


def test_progress_of_an_evaluation_is_its_largest_reward(evaluation):
    record = compare_outcomes(
        [evaluation("a", 0.9, x=[False] * 40), evaluation("b", 0.2, x=[False] * 40)],
        CompareOptions(metric="progress"),
    )
    assert (record.gate.verdict, record.gate.wins) == ("better", 0)
    assert record.gate.difference == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("weak",), "two eval_info.json are needed, got 1"),
        (("weak", "strong", "weak/eval_info.json"), "two eval_info.json are needed, got 3"),
        (("weak", "weak/eval_info.json"), "is given twice"),
        (("weak", __file__), "test_outcomes.py is not an eval_info.json, the other file is"),
        ((__file__, __file__), "2 files, none of them a .json"),
        ((".", "weak"), "holds no eval_info.json"),
        (("weak", "nowhere"), "nowhere does not exist"),
    ],
)
def test_files_that_do_not_go_together_are_refused(names, words):
    with pytest.raises(BadInput, match=words):
        evaluations(*names)


def test_seeds_are_said_of_evaluations_only():
    with pytest.raises(BadInput, match="same_seeds: it has no effect with a CSV file"):
        evaluations(__file__, same_seeds=True)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ({"x": [True]}, "b/eval_info.json has no task y-0, the other file has"),
        ({"x": [True], "y": [True], "z": [True]}, "a/eval_info.json has no task z-0"),
        ({"x": [True], "y": [True, True]}, "episodes of y-0: 1 in .*a/eval_info.json, 2 in"),
        ({"x": [True], "y": []}, "b/eval_info.json has no episode of y-0"),
        ({}, "b/eval_info.json has no episode"),
    ],
)
def test_evaluations_of_other_tasks_or_numbers_are_refused(evaluation, theirs, words):
    files = [evaluation("a", x=[True], y=[True]), evaluation("b", **theirs)]
    with pytest.raises(BadInput, match=words) as refusal:
        compare_outcomes(files, CompareOptions())
    assert refusal.value.remedy


def test_rewards_that_are_not_progress_are_refused():
    with pytest.raises(BadInput, match="episode 1 of door-open-0 in"):
        evaluations("weak", "strong", metric="progress")
