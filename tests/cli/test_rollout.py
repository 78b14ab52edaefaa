"""rollout: what is checked before LeRobot's parser gets its flags."""

import pytest

from lefleet.cli import rollout
from lefleet.cli.rollout import with_ready_device
from lefleet.errors import BadInput
from tests.devices import needs_no_gpu

LOCAL = ["--robot.type=lefleet_sim", "--policy.path=/c"]


@needs_no_gpu
def test_a_missing_device_is_refused_for_a_policy_in_this_process():
    with pytest.raises(BadInput, match=r"^policy\.device: cuda cannot be used"):
        with_ready_device([*LOCAL, "--policy.device=cuda"])


@pytest.mark.parametrize("flag", ["device", "policy.device"])
@pytest.mark.parametrize("form", ["--{}=auto", "--{} auto"])
def test_lerobot_is_told_what_auto_means_here(monkeypatch, flag, form):
    monkeypatch.setattr(rollout, "ready_device", lambda wanted, field: f"{wanted} of {field}")
    flags = with_ready_device([*LOCAL, *form.format(flag).split()])
    named = f"auto of {flag}"
    meant = [f"--{flag}={named}"] if "=" in form else [f"--{flag}", named]
    assert flags == [*LOCAL, *meant]


def test_the_device_of_a_remote_policy_is_its_servers():
    flags = ["--inference.type=remote", "--device=cuda:99"]
    assert with_ready_device(flags) == flags


def test_flags_without_a_device_stay_as_they_are():
    assert with_ready_device(LOCAL) == LOCAL
