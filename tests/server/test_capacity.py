"""How many robots a policy can feed, in numbers that can be checked by hand."""

import pytest

from lefleet.server.capacity import Capacity, plan_text, robots


@pytest.mark.parametrize(
    ("inference_s", "fps", "chunk_size", "n_action_steps", "rtt_s", "count", "limit"),
    [
        # Asks once a second, 0.8 s of work fit: 0.8 / 0.1 = 8; half a chunk lasts 1 s: 10.
        (0.1, 50, 100, 50, 0.0, 8, "throughput"),
        # Whole chunks of 2 s: 16 by throughput; (1 - 0.05) / 0.1 = 9.5 by freshness.
        (0.1, 50, 100, 100, 0.05, 9, "freshness"),
        # 30 Hz, 50 steps, pi0 on a fast device: 0.8 / (0.6 * 0.08) = 16.7; 0.8133 / 0.08 = 10.2.
        (0.08, 30, 50, 50, 0.02, 10, "freshness"),
        # The network takes longer than half a chunk: no robot can be fed.
        (0.1, 50, 10, 10, 0.2, 0, "freshness"),
        # Slower than its own chunk.
        (2.0, 10, 10, 10, 0.0, 0, "freshness"),
        # A new chunk for every step: 0.8 / (20 * 0.01) = 4.
        (0.01, 20, 16, 1, 0.0, 4, "throughput"),
    ],
)
def test_robots_that_can_be_fed(inference_s, fps, chunk_size, n_action_steps, rtt_s, count, limit):
    capacity = robots(
        inference_s=inference_s,
        fps=fps,
        chunk_size=chunk_size,
        n_action_steps=n_action_steps,
        rtt_s=rtt_s,
        max_sessions=100,
        is_exclusive=False,
    )
    assert (capacity.robots, capacity.limit) == (count, limit)


def eight(**changes) -> Capacity:
    """Room for 8.0 robots by throughput and 9.95 by freshness."""
    settings = {"inference_s": 0.1, "max_sessions": 16, "is_exclusive": False, **changes}
    return robots(fps=50, chunk_size=100, n_action_steps=50, rtt_s=0.005, **settings)


@pytest.mark.parametrize(
    ("changes", "count", "limit"),
    [
        ({}, 8, "throughput"),
        ({"max_sessions": 3}, 3, "max_sessions"),
        ({"max_sessions": 8}, 8, "throughput"),
        ({"is_exclusive": True}, 1, "exclusive"),
        ({"is_exclusive": True, "max_sessions": 1}, 1, "exclusive"),
        ({"is_exclusive": True, "inference_s": 2.0}, 0, "throughput"),
    ],
)
def test_no_more_robots_than_are_taken(changes, count, limit):
    capacity = eight(**changes)
    assert (capacity.robots, capacity.limit) == (count, limit)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"max_sessions": 3}, "3 robots: max_sessions allows no more."),
        (
            {"is_exclusive": True},
            "1 robot: the policy is served to one robot at a time, because it remembers.",
        ),
    ],
)
def test_the_plan_says_who_takes_no_more(changes, line):
    text = plan_text(eight(**changes), 0.1, 0.005, "it remembers")
    assert text.splitlines()[0] == line
    assert "by throughput  8.0" in text


def test_the_plan_says_how_many_and_why():
    text = plan_text(eight(), 0.1, 0.005, "")
    assert text.splitlines()[0] == "8 robots: the policy may be at work 80% of the time."
    for words in ("100.0 ms", "5.0 ms", "1.00 times a second"):
        assert words in text


def test_one_robot_is_not_called_robots():
    assert plan_text(eight(inference_s=0.5), 0.5, 0.005, "").startswith("1 robot: ")
