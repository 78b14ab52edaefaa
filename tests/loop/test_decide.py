"""Every row of the decision table."""

import pytest
from msgspec import structs

from lefleet.loop.decide import CandidateEvidence, History, decide
from lefleet.loop.state import Shortage
from lefleet.records import DecidePlan, GateLevel
from tests.loop.states import decision, gate

PLAN = DecidePlan(baseline_floor=0.1, escalate_floor=0.5, escalate_after=3)
NONE, SAME = "", "inconclusive"


def evidence(
    verdict: str = NONE, rate: float = 0.5, rung: int = 0, ended: str = ""
) -> CandidateEvidence:
    found = gate(verdict, ended, worse_tasks=("push",)) if verdict else None
    return CandidateEvidence(9, rung, "new", rate, found, diagnosis=("data: 0 episodes",))


def history(*decisions, blessed: str = "old", rate: float = 0.8) -> History:
    return History("r", decisions, blessed, rate, ("small-act", "big-act"))


def past(verdict: str, outcome: str = "iterate", rung: int = 0, ended: str = ""):
    return decision(1, outcome, "old", rung, gate=gate(verdict, ended) if verdict else None)


EMPTY = history(blessed="", rate=0.0)
TWO = (past(SAME), past(SAME))


@pytest.mark.parametrize(
    ("found", "before", "outcome", "blessed"),
    [
        pytest.param(evidence(rate=0.2), EMPTY, "baseline", "new", id="first above the floor"),
        pytest.param(evidence(rate=0.1), EMPTY, "iterate", "", id="first exactly at the floor"),
        pytest.param(evidence(rate=0.0), EMPTY, "iterate", "", id="flat zero"),
        pytest.param(evidence("better"), history(), "promote", "new", id="better"),
        pytest.param(evidence("better"), history(*TWO), "promote", "new", id="better after draws"),
        pytest.param(evidence("worse"), history(), "rollback", "old", id="worse"),
        pytest.param(evidence("worse"), history(*TWO), "rollback", "old", id="worse after draws"),
        pytest.param(evidence(SAME), history(), "iterate", "old", id="one draw"),
        pytest.param(evidence(SAME), history(past(SAME)), "iterate", "old", id="two draws"),
        pytest.param(evidence(SAME), history(*TWO), "escalate", "old", id="three draws in a row"),
        pytest.param(
            evidence(SAME), history(past(SAME), *TWO), "escalate", "old", id="four draws in a row"
        ),
        pytest.param(
            evidence(SAME), history(*TWO, rate=0.5), "escalate", "old", id="at escalate_floor"
        ),
        pytest.param(
            evidence(SAME), history(*TWO, rate=0.49), "iterate", "old", id="below escalate_floor"
        ),
        pytest.param(
            evidence(SAME, rung=1),
            history(past(SAME, rung=1), past(SAME, rung=1)),
            "stop",
            "old",
            id="ladder exhausted",
        ),
        pytest.param(
            evidence(SAME, rung=1),
            history(*TWO, past(SAME, "escalate")),
            "iterate",
            "old",
            id="draws of another rung do not count",
        ),
        pytest.param(
            evidence(SAME),
            history(past(SAME), past("better", "promote"), past(SAME)),
            "iterate",
            "old",
            id="a promotion in between",
        ),
        pytest.param(
            evidence(SAME),
            history(past(SAME), past("worse", "rollback"), past(SAME)),
            "iterate",
            "old",
            id="a rollback in between",
        ),
        pytest.param(
            evidence(SAME, ended="exhausted"),
            history(past(SAME, ended="exhausted"), past(SAME)),
            "escalate",
            "old",
            id="max_pairs ends a gate as futility does",
        ),
        pytest.param(
            evidence(SAME, ended="vetoed"), history(*TWO), "iterate", "old", id="a task regressed"
        ),
        pytest.param(
            evidence(SAME),
            history(past(SAME), past(SAME, ended="vetoed")),
            "iterate",
            "old",
            id="a vetoed gate in between",
        ),
        pytest.param(
            evidence(SAME),
            history(past(NONE, "baseline"), past(SAME)),
            "iterate",
            "old",
            id="the baseline had no gate",
        ),
    ],
)
def test_evidence_and_history_lead_to_one_decision(found, before, outcome, blessed):
    made = decide(found, before, PLAN)
    assert (made.decision, made.blessed) == (outcome, blessed)


def test_a_decision_says_which_candidate_of_which_cycle_and_rung_it_is_about():
    made = decide(evidence("worse", rung=1), history(), PLAN)
    assert (made.cycle, made.rung, made.candidate) == (9, 1, "new")


def test_a_decision_keeps_its_gate():
    found = evidence("better")
    assert decide(found, history(), PLAN).gate == found.gate


def test_nothing_that_works_comes_with_a_diagnosis():
    assert decide(evidence(rate=0.0), EMPTY, PLAN).diagnosis == ("data: 0 episodes",)


@pytest.mark.parametrize("found", [evidence(rate=0.9), evidence(SAME)])
def test_where_something_works_there_is_no_diagnosis(found):
    before = EMPTY if found.gate is None else history()
    assert decide(found, before, PLAN).diagnosis == ()


def test_a_zero_floor_still_wants_one_success():
    assert decide(evidence(rate=0.0), EMPTY, DecidePlan()).decision == "iterate"


def test_the_words_name_the_counts_and_the_level():
    why = decide(evidence("better"), history(), PLAN).why
    assert "1 won, 1 lost of 10 pairs, p = 0.75 at level 0.05" in why


LEVEL = GateLevel(better=0.05, worse=0.05, guarantee="run", source="planned", share=0.05)
PASSED = {"share": 0.02, "passed_on": 0.03, "passed_by": 1}


@pytest.mark.parametrize(
    ("verdict", "changes", "words"),
    [
        ("better", {}, "at level 0.05, its share)"),
        ("better", {"source": "reserve"}, "at level 0.05, its share of the reserve)"),
        ("better", PASSED, "at level 0.05: its share of 0.02 and 0.03 from cycle 1's promotion)"),
        ("worse", PASSED, "at level 0.05, its share)"),
        (
            "better",
            PASSED | {"source": "reserve"},
            ": its share of 0.02 of the reserve and 0.03 from cycle 1's promotion)",
        ),
        ("better", {"source": "rate"}, "at level 0.05, which guarantee: rate allows)"),
        (
            "better",
            {"guarantee": "none"},
            "its share; no promise for the whole run, because its gates share 50 initial states "
            "per task)",
        ),
    ],
)
def test_the_words_name_where_the_level_came_from(verdict, changes, words):
    level = structs.replace(LEVEL, **changes)
    found = evidence(verdict)._replace(level=level, initial_states=50)
    made = decide(found, history(past("better", "promote")), PLAN)
    assert words in made.why
    assert made.level == level
    rejected = decide(found, history(past("better", "iterate")), PLAN)
    assert rejected.why == made.why.replace("'s promotion", "'s verdict")


@pytest.mark.parametrize(
    ("listed", "remedy"),
    [
        (
            0,
            "continue in a new run with more pairs: lefleet run -c FILE --from r --name=NEW "
            "--gate.max_pairs=415",
        ),
        (50, "415 pairs would show it, and the list of initial states allows 50"),
    ],
)
def test_without_room_the_run_stops_and_the_remedy_is_named(listed, remedy):
    found = evidence()._replace(shortage=Shortage(415, listed))
    made = decide(found, history(*TWO, rate=0.98), PLAN)
    assert (made.decision, made.blessed, made.gate) == ("stop", "old", None)
    assert made.why == f"no room to show an improvement over 98%: {remedy}"
    assert made.pairs_needed == 415


def test_the_words_name_the_room_that_was_left():
    found = gate(SAME, "futile", min_effect=0.3, baseline_rate=0.87)
    why = decide(evidence(SAME)._replace(gate=found), history(), PLAN).why
    assert "a difference of 13 points, which is all the room there is (" in why


def test_the_words_say_why_a_gate_gave_up():
    why = decide(evidence(SAME, ended="futile"), history(), PLAN).why
    assert "no difference shown; stopped after 10 of 20 pairs: the remaining pairs" in why
    assert "are unlikely to show a difference of 15 points (" in why
    assert "stopped after" not in decide(evidence(SAME, ended="exhausted"), history(), PLAN).why


def test_the_words_of_an_escalation_name_both_rungs_and_the_numbers():
    assert decide(evidence(SAME), history(*TWO, rate=0.72), PLAN).why == (
        "3 gates in a row showed no difference on small-act, baseline at 72%: next rung big-act"
    )
    assert decide(evidence(SAME), history(past(SAME), *TWO), PLAN).why.startswith(
        "4 gates in a row"
    )


def test_the_words_of_a_stop_name_the_last_rung():
    two = (past(SAME, rung=1), past(SAME, rung=1))
    assert decide(evidence(SAME, rung=1), history(*two), PLAN).why == (
        "3 gates in a row showed no difference on big-act, baseline at 80%: big-act is the last "
        "rung of the ladder"
    )


def test_a_weak_baseline_does_not_escalate_and_the_words_say_how_weak_it_is():
    made = decide(evidence(SAME), history(*TWO, rate=0.49), PLAN)
    assert made.why.endswith("; baseline at 49%, below 50%: more data comes before a bigger policy")


@pytest.mark.parametrize("cycles", [1, 3, 10, 50])
def test_where_nothing_works_no_number_of_cycles_escalates(cycles):
    before = history(*(past(NONE, "iterate") for _ in range(cycles)), blessed="", rate=0.0)
    made = decide(evidence(rate=0.0), before, PLAN)
    assert (made.decision, made.blessed) == ("iterate", "")
    assert made.diagnosis == ("data: 0 episodes",)


def test_the_words_name_the_task_that_regressed():
    assert "worse in push" in decide(evidence(SAME, ended="vetoed"), history(), PLAN).why
