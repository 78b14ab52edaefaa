"""A comparison in words: verdict, evidence, and what would settle it."""

import pytest

from lefleet.queries.comparison import remarks, sentence
from lefleet.queries.cycles import same_question
from lefleet.records.run import EvaluatePlan, GatePlan
from tests.loop.states import config
from tests.samples import comparison_record, gate_result


def of(metric: str = "success", **gate):
    about = {name: gate.pop(name) for name in ("needed_pairs", "scope", "note") if name in gate}
    files = {name: gate.pop(name) for name in ("candidate_path", "episodes_file") if name in gate}
    return comparison_record(metric=metric, gate=gate_result(**gate), **about, **files)


def text(record) -> str:
    return "\n".join(remarks(record))


BETTER = {"verdict": "better", "ended": "better"}
WORSE = {"verdict": "worse", "ended": "worse", "difference": -0.5, "interval": (-0.9, -0.1)}


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (
            BETTER,
            "A is better than B: of 4 pairs, A won 3 and lost 1. If A were no better, this "
            "would happen at most once in 33 such comparisons.",
        ),
        (
            WORSE,
            "A is worse than B: of 4 pairs, A won 3 and lost 1. If A were no worse, this "
            "would happen at most once in 33 such comparisons.",
        ),
        (
            {"ended": "vetoed", "worse_tasks": ("push", "reach")},
            "No clear answer: A is better than B over all tasks, but worse in push, reach.",
        ),
        (
            {"ended": "futile", "max_pairs": 60},
            "No clear answer: of 4 pairs, A won 3 and lost 1. A difference of 15 points is "
            "unlikely to show within 60 pairs, so the comparison stopped.",
        ),
        (
            {"ended": "open", "max_pairs": 60},
            "No clear answer yet, 60 pairs are planned: of 4 pairs, A won 3 and lost 1.",
        ),
        (
            {},
            "No clear answer: of 4 pairs, A won 3 and lost 1, too little to tell which one is "
            "better.",
        ),
    ],
)
def test_every_end_is_a_sentence(gate, words):
    assert sentence(of(**gate)) == words


@pytest.mark.parametrize(
    ("difference", "words"), [(0.25, "A got 0.25 further"), (-0.25, "A got 0.25 less far")]
)
def test_progress_is_not_counted_in_pairs_won(difference, words):
    record = of("progress", difference=difference, interval=(-0.5, 0.75), min_effect=0.15)
    assert f"in 4 pairs {words} on average" in sentence(record)
    assert f"A minus B: {difference:+.2f}, 95 % interval -0.50 to +0.75." in text(record)


def test_a_difference_of_rates_is_given_in_points():
    assert "A minus B: +50.0 points, 95 % interval -40.0 to +90.0 points." in text(of())


@pytest.mark.parametrize(
    ("gate", "is_explained"),
    [
        (BETTER, True),
        (BETTER | {"interval": (0.1, 0.9)}, False),
        (WORSE, False),
        (WORSE | {"interval": (-0.9, 0.1)}, True),
        ({}, False),
    ],
)
def test_a_verdict_beside_an_interval_that_contains_0_is_explained(gate, is_explained):
    assert ("although the interval contains 0" in text(of(**gate))) == is_explained


def test_e_and_p_are_explained_at_the_level_of_the_comparison():
    found = text(of(alpha_better=0.05))
    assert "Evidence for better: e = 1.6, p = 0.3. For worse: e = 0.6, p = 0.9." in found
    assert "the verdict needs alpha = 0.05 or less" in found
    assert "1/alpha = 20 is as strong" in found


SETTLE = "To settle it: if A and B really differ by the +50.0 points seen here, "


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (
            {"needed_pairs": 240},
            "about 240 new pairs show it 8 times in 10. Ask again with "
            "--max-pairs 240 --alpha 0.03: it runs fresh pairs.",
        ),
        (
            {"needed_pairs": 240, "min_effect": 0.6},
            "--max-pairs 240 --min-effect 0.5 --alpha 0.03:",
        ),
        (
            {"needed_pairs": 240, "candidate_path": ""},
            "about 240 new pairs show it 8 times in 10. Judge them alone, without those used here.",
        ),
        ({"needed_pairs": 240, "episodes_file": ""}, "Judge them alone"),
        (
            {"needed_pairs": 240, "ended": "open", "max_pairs": 300},
            "about 240 pairs in all show it 8 times in 10.",
        ),
        (
            {"needed_pairs": 240, "ended": "open", "max_pairs": 200, "candidate_path": ""},
            "about 240 new pairs show it 8 times in 10. Judge them alone, without those used here.",
        ),
        ({"needed_pairs": 10_000}, "more than 10,000 new pairs show it 8 times in 10."),
    ],
)
def test_an_answer_that_is_not_clear_says_how_many_pairs_would_settle_it(record, words):
    found = text(of(**record))
    assert SETTLE in found
    assert words in found


def test_without_a_difference_no_number_of_pairs_is_promised():
    assert "No difference was seen so far: more pairs" in text(of(difference=0.0))


@pytest.mark.parametrize("gate", [BETTER, WORSE, {"ended": "vetoed", "worse_tasks": ("push",)}])
def test_a_settled_comparison_asks_for_no_more_pairs(gate):
    assert "settle" not in text(of(**gate, needed_pairs=240))


def test_fewer_pairs_than_a_test_of_fixed_size_are_worth_a_remark():
    words = "A test of fixed size needs 100 pairs to show 15 points 8 times in 10"
    assert words in text(of(**BETTER))
    others = (of(), of(**BETTER, fixed_pairs=3), of(**BETTER, fixed_pairs=None))
    for other in (*others, of(ended="futile"), of(ended="open")):
        assert "fixed size" not in text(other)


def test_a_note_comes_last():
    assert remarks(of(note="About 4 initial states."))[-1] == "About 4 initial states."


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"tasks": ("push", "reach")}, "--tasks push reach"),
        (
            {
                "evaluate": EvaluatePlan(env={"type": "pusht"}, initial_states=50),
                "gate": GatePlan(metric="progress", scope="per_task"),
                "device": "cuda",
            },
            "--env type pusht --initial-states 50 --metric progress --scope per_task --device cuda",
        ),
    ],
)
def test_a_gate_is_asked_again_by_hand_about_the_same(changes, flags):
    assert " ".join(same_question(config(**changes))) == flags
