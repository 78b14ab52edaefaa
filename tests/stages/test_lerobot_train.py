"""The command line of a training, and what is read from its output."""

import sys
from pathlib import Path

import pytest

from lefleet.records import CheckpointRecord, TrainRequest, decode, encode
from lefleet.stages.lerobot_train import (
    START_MARK,
    lost_device,
    parse_bar,
    parse_metrics,
    read_curve,
    resume_command,
    save_every,
    start_command,
)
from tests.samples import checkpoint_record, dataset_record

DATASET = dataset_record(repo_id="local/demos", root="/demos", episodes=(0, 1), total_episodes=2)
OUTPUT = Path("/out/training")


def start(request: TrainRequest, dataset=DATASET, **changes):
    how = {
        "init": "",
        "policy_type": request.policy_type,
        "is_state_only": True,
        "episodes_present": dataset.total_episodes,
        "mapping": "" if changes.get("init") else '{"STATE": "IDENTITY"}',
    } | changes
    return start_command(request, dataset, OUTPUT, **how)


def flags(command) -> dict[str, str]:
    """Flags by name; every one is written as --name=value."""
    return dict(flag.removeprefix("--").split("=", 1) for flag in command.argv[3:])


def test_a_fresh_state_act():
    command = start(TrainRequest(dataset="demos", steps=1000))
    assert command.argv == (
        sys.executable,
        "-m",
        "lefleet.compat.train",
        "--dataset.repo_id=local/demos",
        "--dataset.root=/demos",
        "--policy.type=act",
        "--policy.device=cpu",
        "--policy.push_to_hub=false",
        "--policy.use_vae=false",
        "--policy.dim_model=64",
        "--policy.dim_feedforward=256",
        "--policy.n_heads=4",
        "--policy.n_encoder_layers=2",
        "--policy.chunk_size=10",
        "--policy.n_action_steps=5",
        "--policy.dropout=0.0",
        '--policy.normalization_mapping={"STATE": "IDENTITY"}',
        "--use_policy_training_preset=false",
        "--optimizer.type=adamw",
        "--optimizer.lr=0.001",
        "--optimizer.weight_decay=1e-4",
        "--optimizer.grad_clip_norm=10.0",
        "--scheduler.type=cosine_decay_with_warmup",
        "--scheduler.num_warmup_steps=50",
        "--scheduler.num_decay_steps=1000",
        "--scheduler.peak_lr=0.001",
        "--scheduler.decay_lr=2e-05",
        "--output_dir=/out/training",
        "--job_name=lefleet",
        "--steps=1000",
        "--batch_size=64",
        "--num_workers=0",
        "--seed=0",
        "--save_freq=200",
        "--log_freq=50",
        "--env_eval_freq=0",
        "--wandb.enable=false",
    )


def test_wandb_is_lerobots_own_offline_and_without_copies_of_the_weights():
    command = start(TrainRequest(dataset="demos", wandb=True))
    given = {name: value for name, value in flags(command).items() if "wandb" in name}
    assert given == {
        "wandb.enable": "true",
        "wandb.mode": "offline",
        "wandb.project": "lefleet",
        "wandb.disable_artifact": "true",
    }
    assert command.environment["WANDB_ERROR_REPORTING"] == "false"


def test_a_checkpoint_to_continue_from_brings_its_own_policy_settings():
    given = flags(start(TrainRequest(dataset="demos", init="c"), init="/c/pretrained_model"))
    policy = {name: value for name, value in given.items() if name.startswith("policy.")}
    assert policy == {
        "policy.path": "/c/pretrained_model",
        "policy.device": "cpu",
        "policy.push_to_hub": "false",
    }
    assert given["optimizer.lr"] == "0.001"


def test_a_rename_map_is_given_as_json():
    request = TrainRequest(dataset="demos", init="c", rename_map={"a.b": "c.d"})
    given = flags(start(request, init="/c"))
    assert given["rename_map"] == '{"a.b": "c.d"}'


def test_a_subset_of_the_episodes_is_listed():
    some = dataset_record(episodes=(0, 4, 17), total_episodes=18)
    given = flags(start(TrainRequest(dataset="demos"), some))
    assert given["dataset.episodes"] == "[0,4,17]"


def test_a_setting_of_the_user_replaces_ours():
    given = start(TrainRequest(dataset="demos", policy={"dim_model": "8", "dropout": "0.1"})).argv
    assert [flag for flag in given if "dim_model" in flag] == ["--policy.dim_model=8"]
    assert [flag for flag in given if "dropout" in flag] == ["--policy.dropout=0.1"]


def test_extra_arguments_come_last_as_they_are():
    request = TrainRequest(dataset="demos", extra_args=("--steps=7", "--wandb.enable", "true"))
    assert start(request).argv[-3:] == ("--steps=7", "--wandb.enable", "true")


@pytest.mark.parametrize(
    ("request_", "is_state_only"),
    [
        (TrainRequest(dataset="demos", policy_type="diffusion"), True),
        (TrainRequest(dataset="demos"), False),
    ],
)
def test_policies_other_than_the_small_one_keep_lerobots_presets(request_, is_state_only):
    given = flags(start(request_, is_state_only=is_state_only))
    assert "use_policy_training_preset" not in given
    assert "optimizer.lr" not in given
    assert "policy.dim_model" not in given
    assert given["policy.type"] == request_.policy_type


def test_numbers_of_the_request_reach_their_flags():
    request = TrainRequest(
        dataset="demos",
        steps=30,
        batch_size=4,
        num_workers=2,
        seed=9,
        log_every=3,
        save_every=6,
        device="cuda",
        learning_rate=0.5,
    )
    given = flags(start(request))
    expected = {
        "steps": "30",
        "batch_size": "4",
        "num_workers": "2",
        "seed": "9",
        "log_freq": "3",
        "save_freq": "6",
        "policy.device": "cuda",
        "optimizer.lr": "0.5",
        "scheduler.peak_lr": "0.5",
        "scheduler.num_warmup_steps": "3",
        "scheduler.num_decay_steps": "30",
    }
    assert given.items() >= expected.items()


@pytest.mark.parametrize(("steps", "every"), [(1000, 200), (7, 1), (3, 1)])
def test_a_fifth_of_the_training_is_saved_at_a_time(steps, every):
    assert save_every(TrainRequest(dataset="demos", steps=steps)) == every


def test_without_memory_data_lerobots_own_program_runs():
    command = start(TrainRequest(dataset="demos", memory_data=False))
    assert command.argv[1:3] == ("-m", "lerobot.scripts.lerobot_train")


def test_renamed_features_need_our_program_also_without_memory_data():
    request = TrainRequest(dataset="demos", init="c", rename_map={"a": "b"}, memory_data=False)
    command = start(request, init="/c")
    assert command.argv[1:3] == ("-m", "lefleet.compat.train")
    assert command.environment["LEFLEET_TRAINING"] == '{"memory_data": false}'


def test_a_resumed_training_takes_everything_from_its_checkpoint():
    request = TrainRequest(dataset="demos", steps=10, extra_args=("--steps=7",))
    command = resume_command(request, Path("/out/000005"), policy_type="act")
    assert command.argv == (
        sys.executable,
        "-m",
        "lefleet.compat.train",
        "--config_path=/out/000005/pretrained_model/train_config.json",
        "--resume=true",
    )


def test_a_short_training_has_a_point_on_its_loss_curve():
    assert flags(start(TrainRequest(dataset="demos", steps=3)))["log_freq"] == "3"


def test_a_checkpoint_of_another_family_keeps_lerobots_presets():
    request = TrainRequest(dataset="demos", init="c")
    command = start(request, init="/c", policy_type="smolvla")
    assert "optimizer.lr" not in flags(command)
    assert "HF_HUB_OFFLINE" not in command.environment


@pytest.mark.parametrize(("policy_type", "setting"), [("act", "1"), ("smolvla", None)])
def test_only_policies_that_need_nothing_from_the_hub_are_kept_off_it(policy_type, setting):
    request = TrainRequest(dataset="demos")
    for command in (
        start(request, policy_type=policy_type),
        resume_command(request, Path("/c"), policy_type=policy_type),
    ):
        assert command.environment.get("HF_HUB_OFFLINE") == setting


LINE = (
    "INFO 2026-11-15 21:45:01 ot_train.py:595 step:{step} smpl:3K ep:48 epch:2.00 loss:{loss} "
    "grdn:31.187 lr:5.2e-04 updt_s:0.018 data_s:0.003 smp/s:3100"
)
BAR = "Training:  12%|█▏        | 120/1000 [00:05<00:40, 21.1step/s]"


def log_line(loss: object = 0.378, step: str = "50") -> str:
    return LINE.format(step=step, loss=loss)


def curve(lines, log_every: int = 50) -> list[tuple[int, float]]:
    return [(point.step, point.loss) for point in read_curve(lines, log_every)[0]]


def test_metrics_of_a_log_line():
    assert parse_metrics(log_line()) == (0.378, 31.187, 5.2e-4)


@pytest.mark.parametrize("line", ["", BAR, "INFO the loss: it went down", "step: 5 loss: 3"])
def test_other_lines_have_no_metrics(line):
    assert parse_metrics(line) is None


def test_steps_of_a_bar():
    assert parse_bar(BAR) == 120


def test_a_bar_before_the_first_step():
    line = "Training:   0%|          | 0/1000 [00:00<?, ?step/s]"
    assert parse_bar(line) == 0


def test_a_bar_and_a_log_line_on_one_line_are_both_read():
    line = BAR + log_line()
    assert parse_bar(line) == 120
    assert parse_metrics(line) == (0.378, 31.187, 5.2e-4)


def test_other_lines_have_no_bar():
    assert parse_bar(log_line()) is None


def test_steps_are_counted_because_lerobot_abbreviates_them():
    lines = [log_line(0.5, "950"), BAR, log_line(0.4, "1K"), log_line(0.3, "1K")]
    assert curve(lines) == [(50, 0.5), (100, 0.4), (150, 0.3)]


def test_a_point_has_all_its_values():
    (point,) = read_curve([log_line()], 10)[0]
    assert (point.step, point.grad_norm, point.learning_rate) == (10, 31.187, 5.2e-4)


def test_what_came_after_the_checkpoint_that_was_resumed_is_dropped():
    first = [log_line(0.5), log_line(0.4), log_line(0.3)]
    resumed = [f"{START_MARK} 100", log_line(0.2), log_line(0.1)]
    assert curve([*first, *resumed]) == [(50, 0.5), (100, 0.4), (150, 0.2), (200, 0.1)]
    assert read_curve([*first, *resumed], 50)[1] == [100]


def test_a_resume_between_two_log_lines_counts_from_the_one_before():
    lines = [log_line(0.5), log_line(0.4), f"{START_MARK} 70", log_line(0.3)]
    assert curve(lines) == [(50, 0.5), (100, 0.3)]


def test_a_loss_that_is_no_number_leaves_a_record_that_can_be_read():
    points, _ = read_curve([log_line("nan"), log_line(0.2)], 50)
    record = checkpoint_record(curve=tuple(points))
    back = decode(encode(record), CheckpointRecord, "record.json")
    assert [(point.step, point.loss) for point in back.curve] == [(50, None), (100, 0.2)]


def test_a_training_on_one_of_several_gpus_sees_no_other(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    command = start(TrainRequest(dataset="demos", device="cuda:1"))
    assert flags(command)["policy.device"] == "cuda"
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "1"
    resumed = resume_command(
        TrainRequest(dataset="demos", device="cuda:1"), Path("/c"), policy_type="act"
    )
    assert resumed.environment["CUDA_VISIBLE_DEVICES"] == "1"


def test_other_trainings_see_what_the_user_lets_them_see():
    for device in ("cpu", "cuda"):
        command = start(TrainRequest(dataset="demos", device=device))
        assert "CUDA_VISIBLE_DEVICES" not in command.environment


@pytest.mark.parametrize(
    ("lost", "wanted", "is_failure"),
    [("cuda", "cuda", True), ("cuda", "cuda:1", True), ("mps", "cuda", False)],
)
def test_lerobots_switch_to_another_device_is_noticed(lost, wanted, is_failure):
    line = f"WARNING x policies.py:88 Device '{lost}' is not available. Switching to 'cpu'."
    assert (lost_device(line, wanted) is not None) == is_failure
    assert lost_device("INFO Device 'cuda' is fine", wanted) is None
