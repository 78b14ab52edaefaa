"""Trackers that a config names and that are not there."""

import pytest

from lefleet.errors import BadInput
from lefleet.track import names, require_trackers


def test_a_tracker_that_is_not_installed_is_refused_with_the_command(monkeypatch):
    monkeypatch.setattr(names, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match="track: trackio is not installed") as refused:
        require_trackers(("trackio",))
    assert "pip install 'lefleet[track]'" in refused.value.remedy


def test_both_are_installed_here_and_each_is_named_once():
    require_trackers(("trackio", "wandb"))
    with pytest.raises(BadInput, match="track: wandb is named twice"):
        require_trackers(("wandb", "wandb"))
