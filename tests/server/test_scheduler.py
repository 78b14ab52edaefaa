"""Nobody starves, whoever else asks."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lefleet.server.scheduler import RoundRobin


def test_the_one_who_waited_longest_goes_next():
    turns = RoundRobin()
    assert [turns.pick(["a", "b", "c"]) for _ in range(6)] == ["a", "b", "c", "a", "b", "c"]


def test_a_newcomer_joins_at_the_end_of_the_row():
    turns = RoundRobin()
    turns.pick(["a", "b"])
    assert [turns.pick(["a", "b", "new"]) for _ in range(6)] == ["b", "a", "new", "b", "a", "new"]


def test_coming_anew_for_each_request_gains_nothing():
    turns = RoundRobin()
    grants = Counter()
    for number in range(300):
        chosen = turns.pick([f"new {number}", "a", "b"])
        turns.forget(f"new {number}")
        grants[chosen[:1]] += 1
    assert min(grants["a"], grants["b"]) >= 100


@given(st.lists(st.sets(st.sampled_from("bcdef")), min_size=1, max_size=60))
def test_nobody_waits_longer_than_one_round(waiting_with_greedy):
    """The greedy "a" always asks; whoever else waits is served before it is served twice more."""
    turns = RoundRobin()
    passed = Counter()
    for others in waiting_with_greedy:
        chosen = turns.pick(["a", *sorted(others)])
        for one in {"a", *others} - {chosen}:
            passed[one, chosen] += 1
        for key in [key for key in passed if key[0] == chosen]:
            del passed[key]
        assert all(count <= 2 for count in passed.values())


def test_a_session_that_ended_is_forgotten():
    turns = RoundRobin()
    for _ in range(3):
        turns.pick(["a"])
    turns.forget("a")
    assert turns._last == {}
