"""The words that terminal, pages and reports share."""

from pathlib import Path

import pytest

from lefleet.queries.words import budget, explained, shown_path


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


def test_terms_are_explained_where_they_are_used():
    (share,) = explained("p = 0.001 at level 0.02, its share", "")
    assert share.startswith("Share: the part of the run's error budget")
    (rung,) = explained("the next rung?")
    assert rung.startswith("Rung: one entry of the config's ladder")
    assert explained("nothing special, only shared") == []


def test_files_of_the_usual_folder_are_named_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "runs" / "a" / "log.txt"
    assert shown_path(log, tmp_path / "runs") == Path("runs/a/log.txt")
    assert shown_path(log, tmp_path) == log
