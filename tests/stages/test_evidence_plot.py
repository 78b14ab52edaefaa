"""The bounds in the picture of a comparison are those that decided it."""

import pytest

from lefleet.stages.evidence_plot import lead_bounds, plot_evidence
from lefleet.stats import GateRule
from tests.samples import comparison_record, gate_result
from tests.stats.outcomes import judged, pairs

RULE = GateRule(alpha_better=0.04, alpha_worse=0.01, max_pairs=60, futility_below=0.0)


@pytest.mark.parametrize("text", ["w" * 60, "l" * 60, "wl" * 30, "w-ww-l" * 10, "-" * 60])
def test_the_lead_reaches_a_bound_where_the_gate_decides(text):
    gate = judged(RULE, pairs(text))
    for side, alpha, sign in (("better", 0.04, 1), ("worse", 0.01, -1)):
        bounds = lead_bounds(gate.looks, alpha, RULE.max_pairs)
        reached = [
            sign * (look.wins - look.losses) >= bound
            for look, bound in zip(gate.looks, bounds, strict=True)
        ]
        assert reached == [False] * (len(reached) - 1) + [gate.state == side]


@pytest.mark.parametrize("changes", [{}, {"metric": "progress"}, {"looks": ()}])
def test_every_comparison_has_a_picture(changes, tmp_path):
    result = gate_result(alpha_better=0.04, alpha_worse=0.02)
    record = comparison_record(gate=result, **changes)
    plot_evidence(record, "a against b", tmp_path / "evidence.png")
    assert (tmp_path / "evidence.png").read_bytes().startswith(b"\x89PNG")
