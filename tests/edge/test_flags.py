"""The flags of a rollout: LeRobot's, with mistakes in one line and two other defaults."""

import sys

import pytest
from lerobot.scripts import lerobot_rollout  # noqa: F401 - registers robots and teleoperators

import lefleet.robots  # noqa: F401 - registers the simulated ones
from lefleet.cli import rollout as command
from lefleet.edge.config import RemoteInferenceConfig
from lefleet.edge.flags import parse_flags
from lefleet.edge.rollout import run_rollout
from lefleet.errors import BadInput
from tests.edge.cell import recording

SIM = ("--robot.type=lefleet_sim", "--inference.type=remote", "--inference.connect=tcp/127.0.0.1:1")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--robot.type=lefleet_smi"], "robot.type: there is no 'lefleet_smi'. Did you mean lefl"),
        (
            ["--inference.type=far"],
            "inference.type: there is no 'far'. Choose from: sync, rtc, rem",
        ),
        (["--robot.tsk=push"], "There is no flag --robot.tsk. Did you mean --robot.task?"),
        (["--fps=fast"], "fps: Couldn't parse 'fast' into a float."),
        (["push"], "Unexpected argument push: flags are written --NAME=VALUE."),
        (["--config_path=none.yaml"], "none.yaml: No such file or directory."),
        (["--robot.discover_packages_path=none"], "Failed to load plugin 'none'."),
        (["--policy.path=/none"], "policy.path: /none does not exist."),
        (["--strategy.type=sentry"], "dataset.repo_id: is missing; the strategy sentry records."),
        (
            ["--strategy.type=sentry", "--dataset.repo_id=me/x"],
            "dataset.repo_id: me/x must have a name that starts with rollout_.",
        ),
        (
            ["--strategy.type=sentry", "--dataset.repo_id=me/rollout_x", "--dataset.fps=10"],
            "dataset.fps: 10, and 30 frames are recorded a second. Leave it out.",
        ),
    ],
)
def test_a_mistake_is_named_in_one_line(flags, said):
    with pytest.raises(BadInput) as raised:
        parse_flags([*SIM, *flags])
    text = str(raised.value)
    assert text.startswith(said)
    assert "\n" not in text
    assert len(text) < 250


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--inference.type=remote"], "robot.type: is missing."),
        (["--robot.type=lefleet_sim"], "policy.path: is missing; sync needs the weights here."),
    ],
)
def test_what_is_missing_is_named(flags, said):
    with pytest.raises(BadInput, match=said):
        parse_flags(flags)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--robot.task=psh"], "task: no MetaWorld task is called 'psh'. Did you mean push"),
        (["--guard.limits={hand.pos: [0, 1]}"], "guard.limits: the robot has no 'hand.pos'. Did"),
        (["--inference.connect=7447"], "connect: "),
    ],
)
def test_what_only_the_robot_knows_is_found_before_anything_is_connected(flags, said):
    with pytest.raises(Exception, match=said):
        run_rollout(parse_flags([*SIM, *flags]), None)


def test_a_folder_that_exists_is_refused_before_a_server_is_asked(tmp_path):
    flags = ("--strategy.type=sentry", *recording(tmp_path))
    with pytest.raises(BadInput, match=r"exists\. Choose another folder, or continue"):
        run_rollout(parse_flags([*SIM, *flags]), None)
    with pytest.raises(BadInput, match="is not a LeRobotDataset, so there is nothing to resume"):
        run_rollout(parse_flags([*SIM, *flags, "--resume=true"]), None)


def test_nothing_is_uploaded_unless_it_is_asked_for():
    flags = ("--strategy.type=sentry", "--dataset.repo_id=me/rollout_x")
    before = list(sys.argv)
    assert not parse_flags([*SIM, *flags]).uploads
    asked = parse_flags([*SIM, *flags, "--dataset.push_to_hub=true"])
    assert asked.uploads
    assert not asked.dataset.push_to_hub, "LeRobot's teardown uploads before the robot is at home"
    assert asked.strategy.upload_every_n_episodes == sys.maxsize
    assert sys.argv == before


@pytest.mark.parametrize(
    ("flags", "fps"),
    [
        (["--strategy.type=sentry"], 90),
        (["--strategy.type=dagger", "--teleop.type=lefleet_sim_expert"], 45),
    ],
)
def test_a_dataset_has_the_rate_at_which_frames_are_recorded(flags, fps):
    more = ("--dataset.repo_id=me/rollout_x", "--fps=45", "--interpolation_multiplier=2")
    assert parse_flags([*SIM, *more, *flags]).dataset.fps == fps


def test_a_remote_policy_needs_no_path():
    cfg = parse_flags(SIM)
    assert isinstance(cfg.inference, RemoteInferenceConfig)
    assert cfg.policy.type == "lefleet"


def test_help_begins_with_three_examples(capsys):
    with pytest.raises(SystemExit) as end:
        command.rollout(["--strategy.type=highlight", "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: lefleet rollout --robot.type=TYPE")
    assert out.count("\n  lefleet rollout ") == 3
    assert "--strategy.save_key" in out
    assert "--inference.type" in out
    assert "--guard.mode" in out
