"""Outcomes from a file: what is read, and what is refused."""

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
        return compare_outcomes(path, CompareOptions(alpha=alpha, metric=metric))

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
    assert f"{40 - record.gate.pairs} more pairs in the file were not needed" in record.note


def test_progress_counts_where_nobody_succeeds(judge):
    rows = [(number, "pick", 0.8 + number % 3 / 100, 0.3) for number in range(40)]
    record = judge(paired(*rows), metric="progress")
    assert (record.gate.verdict, record.gate.wins) == ("better", 0)
    assert record.gate.difference == pytest.approx(0.51, abs=0.02)


def test_spaces_and_the_mark_of_a_spreadsheet_do_no_harm(judge):
    text = "\ufefftrial, task, a, b\n" + "".join(f"{number}, pick, 1, 0\n" for number in range(10))
    assert judge(text).gate.verdict == "better"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (paired((1, "p", 1, 0), (2, "p", 2, 0)), "row 2, a: success must be 0 or 1"),
        (paired((1, "p", 1, 0), (2, "p", 1, "nan")), "row 2, b: nan is not an outcome"),
        (paired((1, "p", 1, "yes")), "row 1, b: yes is not a number"),
        (paired((1, "p", 1, "0,5")), "row 1: it has 5 values for 4 columns"),
        (paired((1, "p", 1, 0, 1), head="trial,task,a,b,a"), "the column a twice"),
        ("trial,task,a,b\n1,p,1,0\n\n3,p,2,0\n", "row 3, a: success"),
        (paired((1, "p", 1, "")), "row 1, b: it is empty"),
        (paired((1, "p", 1)), "row 1, b: it is empty"),
        (paired((1, "p", 1, 0), (1, "p", 0, 0)), "row 2, trial: 1 of p is already in row 1"),
        (paired((1, "p", 1), head="trial,task,a"), "no column b"),
        (paired(), "no pair in it"),
        ("", "no column trial, task, a, b"),
        ("trial,policy,success\n1,a,1\n2,b,0\n3,a,1\n", "row 3, policy: a has 2 trials"),
        ("trial,policy,success\n1,a,1\n2,c,0\n", "row 2, policy: must be a or b"),
        ("trial,policy,success\n1,a,1\n1,b,0\n1,a,1\n2,b,1\n", "row 3, trial: 1 of a"),
    ],
)
def test_what_cannot_be_judged_is_named_by_row_and_field(judge, text, words):
    with pytest.raises(BadInput, match=words) as refusal:
        judge(text)
    assert refusal.value.remedy


def test_progress_out_of_range_is_named(judge):
    with pytest.raises(BadInput, match="row 1, a: progress must lie between 0 and 1"):
        judge(paired((1, "p", 1.5, 0)), metric="progress")


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan")])
def test_a_level_that_is_none_is_refused(judge, alpha):
    with pytest.raises(BadInput, match="alpha"):
        judge(paired((1, "p", 1, 0)), alpha=alpha)
