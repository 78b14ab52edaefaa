"""Trials in a CSV file: what is read, and what is refused, by line as in an editor."""

import pytest

from lefleet.errors import BadInput
from lefleet.stages.outcomes_csv import read_csv
from tests.stages.test_outcomes import paired


@pytest.fixture
def read(tmp_path):
    def run(text: str | bytes, metric: str = "success"):
        path = tmp_path / "results.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return [(one.task, one.candidate, one.baseline) for one in read_csv(path, metric)[0]]

    return run


READ = [("pick", True, False), ("pick", False, False)]


@pytest.mark.parametrize(
    "text",
    [
        "trial,task,a,b\n1,pick,1,0\n2,pick,0,0\n",
        "\ufefftrial, task, a, b\r\n1, pick, 1, 0\r\n2, pick, 0, 0",
        "trial,task,a,b\r1,pick,1,0\r2,pick,0,0\r",
        "\n\ntrial,task,a,b\n1,pick,1,0\n , ,\n2,pick,0,0\n",
        "trial;task;a;b\n1;pick;1;0\n2;pick;0;0\n",
        "trial\ttask\ta\tb\n1\tpick\t1\t0\n2\tpick\t0\t0\n",
        'trial,task,a,b,note\n1,pick,True,False,\n2,pick,0.0,0,"slow;\nvery slow"\n',
    ],
)
def test_files_of_spreadsheets_and_programs_are_read(read, text):
    assert read(text) == READ


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (paired((1, "p", 1, 0), (2, "p", 2, 0)), "line 3, a: success must be 0 or 1"),
        (paired((1, "p", 1, 0), (2, "p", 1, "nan")), "line 3, b: nan is not an outcome"),
        (paired((1, "p", 1, "success")), "line 2, b: success is not a number"),
        (paired((1, "p", 0.5, 1)), "line 2, a: success must be 0 or 1, got 0.5"),
        (paired((1, "p", 1, "0,5")), "line 2: it has 5 values for 4 columns"),
        (paired((1, "p", 1, 0, 1), head="trial,task,a,b,a"), "the column a twice"),
        ("trial,task,a,b\n1,p,1,0\n\n3,p,2,0\n", "line 4, a: success"),
        (paired((1, "p", 1, "")), "line 2, b: it is empty"),
        (paired((1, "p", 1)), "line 2, b: it is empty"),
        (paired((1, "p", 1, 0), (1, "p", 0, 0)), "line 3, trial: 1 of p is already in line 2"),
        (paired((1, "p", 1), head="trial,task,a"), "no column b"),
        ('trial,task,a,b,c\r\n1,p,1,0,"x\r\ny"\r\n\r\n2,p,2,0,\r\n', "line 5, a: success must"),
        ("\ufeff\ntrial,task,a,b\r1,p,1,0\r2,p,2,0", "line 4, a: success must"),
        ('trial,task,a,b\n1,p,1,0\n2,"p,1,0\n', "line 3: it is not a line of a CSV file"),
        ("trial;task;a;b\n1;p;0,5;0\n", "line 2, a: 0,5 is not a number"),
        (b"trial,task,a,b\n1,gr\xfcn,1,0\n", "is not text in UTF-8"),
        (paired(), "no trial below its header"),
        ("", "no column trial, task, a, b"),
        ("trial,policy,success\n1,a,1\n2,b,0\n3,a,1\n", "line 4, policy: a has 2 trials"),
        ("trial,policy,success\n1,a,1\n2,c,0\n", "line 3, policy: must be a or b"),
        ("trial,policy,success\n1,a,1\n1,b,0\n1,a,1\n2,b,1\n", "line 4, trial: 1 of a"),
    ],
)
def test_what_cannot_be_judged_is_named_by_line_and_field(read, text, words):
    with pytest.raises(BadInput, match=words) as refusal:
        read(text)
    assert refusal.value.remedy


def test_progress_out_of_range_is_named(read):
    with pytest.raises(BadInput, match="line 2, a: progress must lie between 0 and 1"):
        read(paired((1, "p", 1.5, 0)), metric="progress")
