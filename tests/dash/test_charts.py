"""Charts of the pages, without a browser."""

import pytest

from lefleet.dash.charts import difference, evidence
from tests.reports.test_charts import path

ONE_LOOK = {
    "pairs": (20,),
    "value": (4.0,),
    "better": (9.0,),
    "worse": (-9.0,),
    "low": (-0.2,),
    "high": (0.6,),
    "e_value": (2.0,),
}


def lines(options) -> dict[str, list]:
    return {one["name"]: one["data"] for one in options["series"]}


@pytest.mark.parametrize("metric", ["success", "progress"])
def test_bounds_of_a_single_look_are_lines(metric):
    changes = ONE_LOOK | ({"value_worse": (0.1,)} if metric == "progress" else {})
    drawn = lines(evidence(path(metric=metric, **changes)))
    assert drawn["better from here"] == [[0, 9.0], [20, 9.0]]
    assert drawn["worse from here"] == [[0, -9.0], [20, -9.0]]
    assert all(len(data) == 2 for data in drawn.values())


def test_the_difference_begins_where_nothing_is_known():
    drawn = lines(difference(path(**ONE_LOOK)))
    assert drawn == {"at most": [[0, 100.0], [20, 60.0]], "at least": [[0, -100.0], [20, -20.0]]}


@pytest.mark.parametrize("drawn", [evidence, difference])
def test_bounds_are_told_apart_by_dashes_and_by_their_names_on_the_lines(drawn):
    bounds = [one for one in drawn(path(**ONE_LOOK))["series"] if "endLabel" in one]
    assert len({tuple(one["lineStyle"]["type"]) for one in bounds}) == 2
    labels = [one["endLabel"]["formatter"] for one in bounds]
    assert len(set(labels)) == 2
    assert all(one["name"].startswith(label) for one, label in zip(bounds, labels, strict=True))
