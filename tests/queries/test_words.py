"""The words that terminal, pages and reports share."""

import pytest

from lefleet.queries.words import budget


@pytest.mark.parametrize(
    ("name", "used", "limit", "words"),
    [
        ("cycles", 2, 3, "2 of 3 cycles"),
        ("wall_hours", 0.00673, 8.0, "24 s of 8 h in all"),
        ("wall_hours", 0.5, 0.0, "30 min in all"),
        ("device_hours", 1.25, 24.0, "1 h 15 min of 1 d of training and evaluation"),
        ("evaluation_episodes", 1234.0, 20000.0, "1,234 of 20,000 episodes to judge checkpoints"),
        ("llm_tokens", 0.0, 0.0, "0 tokens of a language model"),
    ],
)
def test_a_budget_is_said_in_units_of_people(name, used, limit, words):
    assert budget(name, used, limit) == words
