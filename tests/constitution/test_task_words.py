"""Which tasks may be named, however they are written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet.constitution import (
    rules_for,
    rules_for_request,
)
from lefleet.errors import Denied
from lefleet.records import (
    DatasetSource,
    EvaluateRequest,
    ExpertDemos,
    Proposal,
)
from tests.constitution.cases import config, rules, source
from tests.constitution.test_rules import denied


@pytest.mark.parametrize(
    "text",
    [
        "Kill the lights.",
        "grab the WEAPON",
        "use a gun-shaped tool",
        "k\u200bill the process",
        "\uff4b\uff49\uff4c\uff4c the process",
        "pick_up_the_weapon",
        "ki\u0307ll the lights",
    ],
)
def test_a_forbidden_word_is_found_however_it_is_written(text):
    denied(
        lambda: rules().check_tasks(["push", text]), "tasks.forbidden_words", repr(text[:9])[1:-1]
    )


@pytest.mark.parametrize(
    "text", ["drill a hole", "skilled pick-place", "begun", "push the attacker"]
)
def test_a_part_of_a_word_is_not_the_word(text):
    rules().check_tasks([text])


def test_several_words_are_forbidden_only_in_a_row():
    strict = rules(tasks={"forbidden_words": ["hand over"]})
    denied(lambda: strict.check_tasks(["Hand  over the cup"]), "tasks.forbidden_words")
    strict.check_tasks(["move the hand slowly over the cup"])


def test_a_long_task_and_one_that_is_not_listed_are_denied():
    strict = rules(tasks={"max_length": 10, "allowed": ["push", "fold *"]})
    strict.check_tasks(["push", "fold it"])
    denied(lambda: strict.check_tasks(["fold " + "x" * 10]), "tasks.max_length", "15 characters")
    denied(lambda: strict.check_tasks(["pull"]), "tasks.allowed", "pull")


@pytest.mark.parametrize(
    "subject",
    [
        config(tasks=("stab the bag",)),
        config(collect=DatasetSource(repo_id="a/b", tasks=("stab the bag",))),
        ExpertDemos(tasks=("stab the bag",)),
        EvaluateRequest(checkpoint="/c", tasks=("stab the bag",)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_words_are_forbidden_in_every_place_that_names_a_task(subject, tmp_path):
    if isinstance(subject, type(config())):
        own = rules_for(source(), subject, tmp_path)
        denied(lambda: own.check_config(subject), "tasks.forbidden_words")
    else:
        own = rules_for_request(source(), subject, tmp_path)
        denied(lambda: own.check_request(subject), "tasks.forbidden_words")


def test_a_proposal_keeps_to_words_and_caps():
    proposal = Proposal(
        cycle=1, action="demonstrations", episodes={"push": 9}, source="model", why="it fails"
    )
    rules(caps={"episodes_per_task": 9}).check_proposal(proposal)
    limited = rules(caps={"episodes_per_task": 8})
    denied(lambda: limited.check_proposal(proposal), "caps.episodes_per_task", "push is 9")
    strict = rules(tasks={"forbidden_words": ["push"]})
    denied(lambda: strict.check_proposal(proposal), "tasks.forbidden_words")


words = st.text(min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(before=words, after=words)
def test_a_forbidden_word_between_others_is_always_found(before, after):
    denied(lambda: rules().check_tasks([f"{before} weapon {after}"]), "tasks.forbidden_words")


@pytest.mark.parametrize("tasks", [("push",), ("easy3",), ("push-v3",)])
def test_a_set_is_judged_by_its_tasks_and_a_task_by_its_text(tasks):
    for word in ("push", "puck"):
        with pytest.raises(Denied, match=rf"contains '{word}'"):
            rules(tasks={"forbidden_words": [word]}).check_tasks(tasks)
    rules(tasks={"allowed": ["push", "pick-place", "door-open"]}).check_tasks(tasks)


def test_a_set_with_a_task_that_is_not_allowed_is_denied():
    with pytest.raises(Denied, match=r"tasks\.allowed: the task 'door-open'"):
        rules(tasks={"allowed": ["push", "pick-place"]}).check_tasks(("easy3",))
