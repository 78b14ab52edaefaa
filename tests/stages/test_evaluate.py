"""Rates and summaries of an evaluation, and blocks that lerobot-eval runs."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from lefleet.errors import ChildKilled, StageFailed
from lefleet.records import EvaluateRequest
from lefleet.stages import evaluate, run_stage
from lefleet.stages.evaluate import eval_command, rate, stock_episodes, summarise
from lefleet.stages.folder import StageFolder
from lefleet.stages.references import CheckpointReference
from lefleet.stats import exact_interval
from tests.samples import episode

pytestmark = pytest.mark.usefixtures("any_program")
"""They start small programs in LeRobot's place."""

CHECKPOINT = CheckpointReference("/c/pretrained_model", "digest")


def episodes(task: str, outcomes: str, **changes):
    """One episode per letter, from seed 0 on: s for success, f for failure."""
    return [
        episode(task, seed, success=letter == "s", **changes)
        for seed, letter in enumerate(outcomes)
    ]


def test_a_rate_counts_successes_and_carries_the_exact_interval():
    found = rate(episodes("push", "ssfs"))
    assert (found.successes, found.episodes, found.rate) == (3, 4, 0.75)
    assert found.interval == exact_interval(3, 4)


def test_a_summary_has_a_rate_for_all_and_one_for_each_task():
    found = summarise(
        CHECKPOINT, ("push", "reach"), [*episodes("push", "sf"), *episodes("reach", "ff")]
    )
    assert (found.checkpoint, found.digest) == CHECKPOINT
    assert (found.overall.successes, found.overall.episodes) == (1, 4)
    assert {task: one.successes for task, one in found.per_task.items()} == {"push": 1, "reach": 0}
    assert {one.episodes for one in found.per_task.values()} == {2}


def test_a_summary_averages_progress_and_length():
    found = summarise(
        CHECKPOINT,
        ("push",),
        [
            episode("push", 0, progress=0.25, length=10),
            episode("push", 1, progress=1.0, length=25),
        ],
    )
    assert found.mean_progress == 0.625
    assert found.mean_length == 17.5


REQUEST = EvaluateRequest(
    checkpoint="/c",
    tasks=("any",),
    episodes_per_task=3,
    seed=100,
    env={"type": "pusht", "task": "PushT-v0"},
)


def test_the_command_names_policy_environment_and_block():
    assert eval_command(REQUEST, "/c", Path("/out"))[1:] == (
        "-m",
        "lerobot.scripts.lerobot_eval",
        "--policy.path=/c",
        "--policy.device=cpu",
        "--env.type=pusht",
        "--env.task=PushT-v0",
        "--eval.n_episodes=3",
        "--eval.batch_size=3",
        "--seed=100",
        "--output_dir=/out",
    )


def test_the_batch_is_no_larger_than_asked_for():
    request = EvaluateRequest(checkpoint="/c", episodes_per_task=50, batch_size=4)
    assert "--eval.batch_size=4" in eval_command(request, "/c", Path("/out"))


@pytest.fixture
def run_block(tmp_path, monkeypatch):
    """Episodes of a block whose evaluation is a tiny program."""

    def run(program: str) -> list:
        def command(request, checkpoint, output):
            return (sys.executable, "-c", program, str(output))

        monkeypatch.setattr(evaluate, "eval_command", command)
        with StageFolder(tmp_path / "evaluate", REQUEST) as stage:
            return list(stock_episodes(REQUEST, "candidate", "/c", stage))

    return run


def reporting(*tasks: dict) -> str:
    info = json.dumps({"per_task": list(tasks)})
    return (
        "import pathlib, sys; out = pathlib.Path(sys.argv[1]); out.mkdir(); "
        f"(out / 'eval_info.json').write_text({info!r})"
    )


def task(number: int, successes: list[bool], rewards: list[float]) -> dict:
    metrics = {"successes": successes, "max_rewards": rewards}
    return {"task_group": "pusht", "task_id": number, "metrics": metrics}


def test_every_reported_episode_has_its_task_and_seed(run_block):
    lines = run_block(reporting(task(0, [True, False], [1, 0]), task(1, [False], [0])))
    assert [(line.task, line.seed, line.success) for line in lines] == [
        ("pusht-0", 100, True),
        ("pusht-0", 101, False),
        ("pusht-1", 100, False),
    ]


@pytest.mark.parametrize(
    ("success", "reward", "progress"),
    [(True, 0.2, 1.0), (False, 0.4, 0.4), (False, 7.0, 0.99), (False, -3.0, 0.0)],
)
def test_progress_is_1_for_a_success_only(run_block, success, reward, progress):
    (line,) = run_block(reporting(task(0, [success], [reward])))
    assert line.progress == progress


def test_a_failing_evaluation_is_reported_with_its_last_lines(run_block, tmp_path):
    with pytest.raises(StageFailed, match=r"exited with code 1: .*no such environment") as caught:
        run_block("raise SystemExit('ValueError: no such environment')")
    assert str(tmp_path / "evaluate" / "log.txt") in caught.value.remedy


def test_a_killed_evaluation_is_reported_with_its_signal(run_block):
    with pytest.raises(ChildKilled, match=r"lerobot-eval was killed by SIGKILL"):
        run_block("import os; os.kill(os.getpid(), 9)")


def test_episodes_of_a_checkpoint_that_changed_meanwhile_are_not_kept(tmp_path, monkeypatch):
    weights = tmp_path / "model" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"old")
    (weights.parent / "config.json").write_text("{}")
    program = f"{reporting(task(0, [True], [1]))}; open({str(weights)!r}, 'wb').write(b'new')"
    argv = (sys.executable, "-c", program)
    monkeypatch.setattr(evaluate, "eval_command", lambda *of: (*argv, str(of[-1])))
    request = msgspec.structs.replace(REQUEST, checkpoint=str(weights.parent))
    with pytest.raises(StageFailed, match="checkpoint: its content has changed"):
        run_stage(request, tmp_path / "evaluate")
    assert not (tmp_path / "evaluate" / "record.json").exists()
    weights.write_bytes(b"old")
    program = reporting(task(0, [False], [0]))
    monkeypatch.setattr(
        evaluate, "eval_command", lambda *of: (sys.executable, "-c", program, str(of[-1]))
    )
    assert run_stage(request, tmp_path / "evaluate").result.overall.successes == 0
