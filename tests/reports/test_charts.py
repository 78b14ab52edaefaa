"""Charts and elements of a report, without a run."""

import re

import msgspec
import pytest

from lefleet.queries.cycles import EvidencePath
from lefleet.queries.run import TrainingCurve
from lefleet.queries.status import CycleStatus
from lefleet.reports.charts import evidence_chart, success_chart, training_chart
from lefleet.reports.html import element, joined, table, text

EVIL = "<script>alert('1')</script>"
SHOWN = "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;"


def cycle(index: int, rate: float | None, decision: str | None = "iterate") -> CycleStatus:
    given = {
        "index": index,
        "decision": decision,
        "success_rate": rate,
        "interval": None if rate is None else (max(0.0, rate - 0.2), min(1.0, rate + 0.2)),
        "diagnosis": (),
        "tasks": {},
        "stages": (),
    }
    return CycleStatus(**dict.fromkeys(CycleStatus.__struct_fields__) | given)


def path(**changes) -> EvidencePath:
    made = EvidencePath(
        metric="success",
        pairs=(5, 10),
        value=(1.0, 6.0),
        better=(5.0, 6.0),
        worse=(-5.0, -6.0),
        value_worse=(),
        low=(-0.5, 0.1),
        high=(0.9, 0.8),
        e_value=(1.0, 60.0),
        max_pairs=40,
    )
    return msgspec.structs.replace(made, **changes)


def labels(chart: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", chart)


def test_text_is_escaped_wherever_it_stands():
    assert element("p", EVIL) == f"<p>{SHOWN}</p>"
    assert element("p", "x", title=EVIL) == f'<p title="{SHOWN}">x</p>'
    assert SHOWN in table((EVIL, "b"), [(EVIL, EVIL)], caption=EVIL)
    assert EVIL not in table((EVIL, "b"), [(EVIL, EVIL)], caption=EVIL)
    assert joined([EVIL, element("b", "1 < 2")]) == f"{SHOWN}<b>1 &lt; 2</b>"
    assert text("a\x00b\x1b\u202ec\ud800") == "a�b��c�"
    assert text("two\nlines").encode() == b"two\nlines"


def test_attributes_without_a_value_and_none():
    assert element("video", controls=True, loop=False, poster="") == "<video controls></video>"


def test_every_decision_has_a_shape_and_a_word():
    chart = success_chart(
        [cycle(0, 0.2, "baseline"), cycle(1, 0.5, "promote"), cycle(2, 0.4, None), cycle(3, None)]
    )
    assert {"baseline", "promote", "open", "20%", "50%", "40%", "cycle 2"} <= set(labels(chart))
    assert "cycle 3" not in labels(chart)
    assert chart.count('class="point good"') == 2
    assert "cycle 1: 50%, promote" in chart
    assert SHOWN in success_chart([cycle(0, 0.5, EVIL)])


def test_labels_of_many_cycles_do_not_overlap():
    chart = success_chart([cycle(number, 0.5) for number in range(100)])
    assert len([one for one in labels(chart) if one.startswith("cycle ")]) <= 8
    assert "cycle 99" in labels(chart)


@pytest.mark.parametrize("cycles", [[], [cycle(0, None)]])
def test_nothing_is_drawn_of_nothing(cycles):
    assert success_chart(cycles) == ""
    assert training_chart([]) == ""
    assert evidence_chart(path(pairs=(), value=(), better=(), worse=()), "t") == ""


def test_evidence_has_its_bounds_and_the_pairs_that_were_not_needed():
    chart = evidence_chart(path(), EVIL)
    assert {"better from here", "worse from here", "0", "10", "40"} <= set(labels(chart))
    assert chart.count("<polyline") == 3
    assert SHOWN in chart
    assert "After 10 of at most 40 pairs" in chart


def test_bounds_of_a_single_look_are_lines():
    chart = evidence_chart(path(pairs=(20,), value=(4.0,), better=(9.0,), worse=(-9.0,)), "t")
    drawn = re.findall(r'<polyline points="([^"]+)"', chart)
    assert [len(one.split()) for one in drawn] == [2, 2, 2]


def test_evidence_of_progress_has_a_line_for_each_side():
    chart = evidence_chart(
        path(metric="progress", better=(1.3, 1.3), worse=(1.3, 1.3), value_worse=(0.1, 0.2)), "t"
    )
    assert chart.count("<polyline") == 4
    assert "evidence (e-value), over pairs" in labels(chart)


@pytest.mark.parametrize("losses", [(0.5, 0.1), (0.5, None), (0.0, -1.0), (float("nan"), 2.0)])
def test_training_is_drawn_whatever_its_losses_are(losses):
    curves = [
        TrainingCurve(cycle=number, policy_type="act", steps=(50, 100), losses=losses)
        for number in range(3)
    ]
    chart = training_chart(curves)
    assert [one for one in labels(chart) if one.startswith("cycle ")] == [
        "cycle 0", "cycle 1", "cycle 2",
    ]  # fmt: skip
    assert "nan" not in chart
    heights = re.findall(r'y="([\d.]+)"[^>]*>cycle', chart)
    assert len(set(heights)) == 3
