"""The stages as a user runs them: real simulation, real LeRobot, real kills."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from lefleet import (
    BadInput,
    Corrections,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    StageFailed,
    TrainRequest,
    run_stage,
)
from lefleet.records import encode
from lefleet.sim.render import OFF
from lefleet.stages.folder import StageFolder, read_record
from lefleet.stages.references import find_checkpoint

TASKS = ("push", "pick-place", "door-open")
UNSCALED = dict.fromkeys(("STATE", "ENV", "ACTION", "VISUAL"), "IDENTITY")


def start(request, folder: Path) -> "subprocess.Popen[bytes]":
    """The stage as a process of its own, as the command starts it."""
    with StageFolder(folder, request):
        pass
    argv = [sys.executable, "-m", "lefleet", "stage", "exec", str(folder)]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_when(process: "subprocess.Popen[bytes]", is_time) -> None:
    """SIGKILL as soon as `is_time()`; the stage must not have finished by then."""
    deadline = time.monotonic() + 600
    while not is_time():
        assert process.poll() is None, "the stage ended before it could be killed"
        assert time.monotonic() < deadline, "the moment to kill never came"
        os.sched_yield()
    process.send_signal(signal.SIGKILL)
    process.wait()


def stock(program: str, flags: dict[str, str]) -> None:
    """One of LeRobot's own programs."""
    argv = [Path(sys.executable).parent / program, *(f"--{k}={v}" for k, v in flags.items())]
    subprocess.run(argv, check=True, capture_output=True)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_demonstrations_are_a_lerobot_dataset_with_named_columns(demos):
    record = read_record(demos)
    dataset = LeRobotDataset(record.repo_id, root=record.root)
    assert dataset.num_episodes == 15 == len(record.episodes)
    assert dataset.num_frames == record.frames
    assert dataset.features["action"]["names"][3] == "gripper_close.pos"
    assert record.tasks["open the door"] == 5
    assert all(tally.kept == 5 for tally in record.tallies.values())


def test_a_finished_stage_answers_at_once(demos):
    record = run_stage(ExpertDemos(tasks=TASKS, episodes_per_task=5), demos)
    assert record == read_record(demos)


def test_a_killed_collection_goes_on_and_ends_with_the_same_data(demos, tmp_path):
    request = ExpertDemos(tasks=TASKS, episodes_per_task=5)
    folder = tmp_path / "collect"
    kill_when(start(request, folder), lambda: lines(folder / "attempts.jsonl") >= 4)
    before = (folder / "attempts.jsonl").read_bytes()
    record = run_stage(request, folder)
    assert (folder / "attempts.jsonl").read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert record.digest == read_record(demos).digest


def test_a_killed_training_resumes_from_its_last_checkpoint(demos, tmp_path):
    request = TrainRequest(dataset=str(demos), steps=60, save_every=20, log_every=10)
    folder = tmp_path / "killed"
    checkpoint = folder / "training" / "checkpoints" / "last"
    kill_when(start(request, folder), checkpoint.exists)
    record = run_stage(request, folder)
    assert record.resumed_at[0] in (20, 40)
    assert [point.step for point in record.curve] == [10, 20, 30, 40, 50, 60]
    assert "Resuming data order" in (folder / "log.txt").read_text()


def test_a_checkpoint_carries_its_contract(checkpoint, demos):
    record = read_record(checkpoint)
    contract = json.loads((Path(record.path) / "lefleet.json").read_bytes())
    assert contract["action_names"] == [
        "hand_x.vel",
        "hand_y.vel",
        "hand_z.vel",
        "gripper_close.pos",
    ]
    assert contract["vectors"]["observation.state"][0] == "hand_x.pos"
    assert contract["cameras"] == {}
    assert contract["dataset_digest"] == read_record(demos).digest
    assert record.curve[-1].step == 600
    assert record.curve[-1].loss < record.curve[0].loss


def test_a_failed_training_says_why(demos, tmp_path):
    request = TrainRequest(dataset=str(demos), steps=5, extra_args=("--policy.no_such_field=1",))
    with pytest.raises(StageFailed, match="no_such_field") as raised:
        run_stage(request, tmp_path / "train")
    assert "torchcodec" not in str(raised.value)


def test_training_refuses_data_that_lacks_an_evaluated_task(demos, tmp_path):
    with pytest.raises(BadInput, match="no episode of reach"):
        run_stage(TrainRequest(dataset=str(demos), tasks=("reach", "push")), tmp_path / "train")
    assert not (tmp_path / "train").exists()


def five_of_each(checkpoint: Path, **changes) -> EvaluateRequest:
    values = {"tasks": TASKS, "episodes_per_task": 5, "batch_size": 5, "workers": 1}
    return EvaluateRequest(checkpoint=str(checkpoint), **values | changes)


@pytest.fixture(scope="module")
def evaluation(once, checkpoint):
    return once(five_of_each(checkpoint), "evaluation")


def episodes_of(folder: Path) -> list[dict]:
    found = [json.loads(line) for line in (folder / "episodes.jsonl").read_bytes().splitlines()]
    return sorted(found, key=lambda episode: (episode["policy"], episode["task"], episode["seed"]))


def test_every_episode_equals_lerobot_eval_s(checkpoint, evaluation, tmp_path, monkeypatch):
    """The stock program, with our environment through its plugin flag, on the same seeds."""
    # It films every episode; black frames cost nothing.
    monkeypatch.setenv("MUJOCO_GL", OFF)
    policy = find_checkpoint(str(checkpoint), "checkpoint").path
    flags = {
        "policy.path": policy,
        "policy.device": "cpu",
        "env.discover_packages_path": "lefleet.sim",
        "env.type": "lefleet_metaworld",
        "env.task": ",".join(TASKS),
        "eval.n_episodes": "5",
        "eval.batch_size": "5",
        "seed": "100000000",
        "output_dir": str(tmp_path / "stock"),
    }
    stock("lerobot-eval", flags)
    info = json.loads((tmp_path / "stock" / "eval_info.json").read_bytes())
    theirs = {
        (task["task_group"], 100_000_000 + number): success
        for task in info["per_task"]
        for number, success in enumerate(task["metrics"]["successes"])
    }
    ours = {(one["task"], one["seed"]): one["success"] for one in episodes_of(evaluation)}
    assert ours == theirs
    assert len(set(ours.values())) == 2, "a policy that always or never succeeds proves nothing"


def test_stock_lerobot_train_evaluates_in_our_environment(demos, tmp_path):
    flags = {
        "dataset.repo_id": "local/dataset",
        "dataset.root": str(demos / "dataset"),
        "policy.type": "act",
        "policy.device": "cpu",
        "policy.push_to_hub": "false",
        "policy.dim_model": "32",
        "policy.n_heads": "2",
        "policy.use_vae": "false",
        "policy.normalization_mapping": json.dumps(UNSCALED),
        "env.discover_packages_path": "lefleet.sim",
        "env.type": "lefleet_metaworld",
        "env.task": "reach",
        "env.episode_length": "5",
        "eval.n_episodes": "1",
        "eval.batch_size": "1",
        "steps": "2",
        "env_eval_freq": "2",
        "num_workers": "0",
        "wandb.enable": "false",
        "output_dir": str(tmp_path / "stock"),
    }
    stock("lerobot-train", flags)
    assert list((tmp_path / "stock" / "eval").rglob("*.mp4"))


def test_films_are_made_of_the_first_episodes_only(evaluation):
    filmed = [episode for episode in episodes_of(evaluation) if episode["video"]]
    assert [episode["seed"] for episode in filmed] == [100_000_000] * 3
    assert all((evaluation / episode["video"]).stat().st_size > 1000 for episode in filmed)


def test_a_killed_evaluation_goes_on_after_the_last_episode(checkpoint, evaluation, tmp_path):
    request = five_of_each(checkpoint, videos_per_task=0)
    folder = tmp_path / "evaluate"
    kill_when(start(request, folder), lambda: lines(folder / "episodes.jsonl") >= 5)
    recorded = lines(folder / "episodes.jsonl")
    run_stage(request, folder)

    def outcomes(where: Path) -> list[tuple]:
        return [(e["task"], e["seed"], e["success"], e["length"]) for e in episodes_of(where)]

    assert 5 <= recorded < 15
    assert outcomes(folder) == outcomes(evaluation)


@pytest.mark.parametrize("method", ["harvest", "correct"])
def test_improving_adds_to_the_demonstrations_within_the_ratio(method, checkpoint, demos, tmp_path):
    request = ImproveRequest(
        checkpoint=str(checkpoint),
        demos=str(demos),
        method=method,
        tasks=TASKS,
        episodes_per_task=2,
        mixing_ratio=0.2,
        workers=1,
    )
    record = run_stage(request, tmp_path / "mix")
    assert record.self_generated == sum(record.added.values()) == 3
    assert len(record.dataset.episodes) == 18
    dataset = LeRobotDataset(record.dataset.repo_id, root=record.dataset.root)
    assert dataset.num_episodes == 18
    assert record.dataset.parents[0] == read_record(demos).digest
    assert all(tally.attempted >= tally.kept for tally in record.tallies.values())


def test_corrections_are_a_dataset_of_their_own(checkpoint, tmp_path):
    request = Corrections(
        checkpoint=str(checkpoint), tasks=("push",), episodes_per_task=2, mode="relabel", workers=1
    )
    record = run_stage(request, tmp_path / "corrections")
    assert record.tasks == {"push the puck to the goal": 2}
    assert record.parents == (read_record(checkpoint).digest,)


@pytest.fixture(scope="module")
def lopsided(once, tmp_path_factory):
    """Two doors after three pushes: the wanted task comes last."""
    push = once(ExpertDemos(tasks=("push",), episodes_per_task=3), "push3")
    door = once(ExpertDemos(tasks=("door-open",), episodes_per_task=2), "door2")
    from lefleet.stages.datasets import merge

    folder = tmp_path_factory.mktemp("lopsided")
    root = folder / "merged"
    merge([read_record(push), read_record(door)], root, folder / "scratch")
    return root


def test_episodes_of_the_wanted_task_are_found_wherever_they_are(lopsided, tmp_path):
    request = ExistingDataset(root=str(lopsided), tasks=("door-open",))
    assert run_stage(request, tmp_path / "select").episodes == (3, 4)


def test_every_task_gets_the_same_number_of_episodes(lopsided, tmp_path):
    record = run_stage(
        ExistingDataset(root=str(lopsided), tasks=("push", "door-open")), tmp_path / "select"
    )
    assert record.tasks == {"push the puck to the goal": 2, "open the door": 2}
    assert record.total_episodes == 5


def test_a_task_without_episodes_is_named(lopsided, tmp_path):
    request = ExistingDataset(root=str(lopsided), tasks=("push", "reach", "window-open"))
    with pytest.raises(BadInput, match=r"no episode of reach, window-open.*push \(3\)"):
        run_stage(request, tmp_path / "select")


def test_a_selection_can_be_trained_on_and_merged(lopsided, checkpoint, tmp_path):
    select = tmp_path / "select"
    run_stage(ExistingDataset(root=str(lopsided), tasks=("door-open",)), select)
    trained = run_stage(TrainRequest(dataset=str(select), steps=4, log_every=2), tmp_path / "train")
    assert trained.contract.tasks == ("open the door",)
    mix = run_stage(
        ImproveRequest(
            checkpoint=str(checkpoint),
            demos=str(select),
            method="harvest",
            tasks=("door-open",),
            episodes_per_task=1,
            workers=1,
        ),
        tmp_path / "mix",
    )
    assert mix.dataset.tasks == {"open the door": 3}


def test_the_same_episodes_have_the_same_digest_wherever_they_are(lopsided, once, tmp_path):
    door = once(ExpertDemos(tasks=("door-open",), episodes_per_task=2), "door2")
    selected = run_stage(
        ExistingDataset(root=str(lopsided), tasks=("door-open",)), tmp_path / "select"
    )
    assert selected.digest == read_record(door).digest


def test_records_survive_their_own_encoding(checkpoint, evaluation):
    for folder in (checkpoint, evaluation):
        assert encode(read_record(folder)) == (folder / "record.json").read_bytes()
