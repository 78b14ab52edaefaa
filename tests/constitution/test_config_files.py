"""Files for --config_path: they may say no more than flags may."""

import json
from pathlib import Path

import pytest

from lefleet.constitution import rules_for
from lefleet.records import (
    TrainRequest,
)
from lefleet.stages.lerobot_train import resume_command
from tests.constitution.cases import TRAIN, config, dataset, source
from tests.constitution.test_commands import denied


def saved(folder: Path, **changes) -> Path:
    """A checkpoint's folder with the settings of its training, as LeRobot writes them."""
    content = {
        "dataset": {"repo_id": "local/data", "root": str(folder.parent / "data"), "episodes": None},
        "env": None,
        "policy": {"type": "act", "push_to_hub": False, "repo_id": None, "pretrained_path": None},
        "output_dir": str(folder.parent),
        "steps": 100,
        "batch_size": 8,
        "wandb": {"enable": False, "mode": None},
        "job": {"target": None, "image": "x"},
        "image_transforms": {},
    }
    for key, value in changes.items():
        section, _, name = key.partition("__")
        if name:
            content[section] = {**(content.get(section) or {}), name: value}
        else:
            content[section] = value
    file = folder / "pretrained_model" / "train_config.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(content))
    return folder


def test_wandb_offline_sends_nothing_and_is_allowed(own, tmp_path):
    dataset(tmp_path / "data")
    own.check_argv((*TRAIN, "--wandb.enable=true", "--wandb.mode=offline"))
    saved(tmp_path / "000100", wandb={"enable": True, "mode": "offline"})
    request = TrainRequest(dataset="d", wandb=True)
    command = resume_command(request, tmp_path / "000100", policy_type="act")
    own.check_argv(command.argv, command.environment)
    denied(own, *command.argv, "--wandb.mode=online", rule="uploads")
    denied(own, *TRAIN, "--wandb.enable=true", "--wandb.mode=online", rule="uploads")
    denied(own, *TRAIN, "--wandb.enable=true", "--wandb.mode=null", rule="uploads")


def test_a_training_is_resumed_with_the_settings_of_its_own_checkpoint(own, tmp_path):
    dataset(tmp_path / "data")
    plugin = "--policy.discover_packages_path=lefleet.sim"
    request = TrainRequest(dataset="d", extra_args=(plugin,))
    command = resume_command(request, saved(tmp_path / "000100"), policy_type="act")
    own.check_argv(command.argv, command.environment)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"dataset__root": "/elsewhere"}, "datasets"),
        ({"dataset__root": None, "dataset__repo_id": "other/data"}, "datasets"),
        ({"policy__pretrained_path": "/elsewhere"}, "checkpoints"),
        ({"policy__path": "other/weights"}, "checkpoints"),
        ({"policy__push_to_hub": True}, "uploads"),
        ({"env": {"type": "pusht"}}, "environments"),
        ({"env": {"type": "gym_manipulator", "robot": {"type": "so101_follower"}}}, "environments"),
        ({"env": "include /tmp/env.yaml"}, "config_paths"),
        ({"env": "/tmp/env.yaml"}, "commands"),
        ({"policy": "{type: act}"}, "commands"),
        ({"output_dir": "/elsewhere"}, "commands"),
        ({"output_dir": None}, "commands"),
        ({"output_dir": ""}, "commands"),
        ({"steps": 10**9}, "caps.steps"),
        ({"steps": "include /tmp/steps.yaml"}, "config_paths"),
        ({"wandb__enable": True}, "uploads"),
        ({"job__target": "a10g-small"}, "uploads"),
        ({"config_path": "/tmp/x.json"}, "config_paths"),
        ({"plugin__discover_packages_path": "evil"}, "plugins"),
    ],
)
def test_a_config_file_may_not_say_what_a_flag_may_not(own, tmp_path, changes, rule):
    dataset(tmp_path / "data")
    checkpoint = saved(tmp_path / "000100", **changes)
    command = resume_command(TrainRequest(dataset="d"), checkpoint, policy_type="act")
    denied(own, *command.argv, rule=rule)


def test_a_config_file_outside_or_of_another_kind_is_denied(own, tmp_path):
    dataset(tmp_path / "data")
    saved(tmp_path / "000100")
    (tmp_path / "settings.yaml").write_text("steps: 5")
    (tmp_path / "broken.json").write_text("{")
    for name in ("settings.yaml", "broken.json", "missing.json", "000100"):
        denied(own, *TRAIN, f"--config_path={tmp_path / name}", rule="config_paths")
    elsewhere = rules_for(source(), config(), tmp_path / "runs")
    inside = tmp_path / "runs" / "link.json"
    inside.parent.mkdir()
    inside.symlink_to(tmp_path / "000100" / "pretrained_model" / "train_config.json")
    denied(elsewhere, *TRAIN, f"--config_path={inside}", rule="config_paths")


def test_a_folder_for_config_path_is_read_as_lerobot_reads_it(own, tmp_path):
    dataset(tmp_path / "data")
    folder = saved(tmp_path / "000100", steps=10**9) / "pretrained_model"
    denied(own, *TRAIN, f"--config_path={folder}", rule="caps.steps")
