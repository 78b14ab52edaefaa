"""lerobot-eval's command line and the episodes that it reports."""

import json
import sys
from pathlib import Path

import pytest

from lefleet.errors import StageFailed
from lefleet.records import EvaluateRequest
from lefleet.stages import stock_eval
from lefleet.stages.folder import StageFolder
from lefleet.stages.stock_eval import eval_command, stock_episodes

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
def episodes(tmp_path, monkeypatch):
    """Episodes of a block whose evaluation is a tiny program."""

    def run(program: str) -> list:
        def command(request, checkpoint, output):
            return (sys.executable, "-c", program, str(output))

        monkeypatch.setattr(stock_eval, "eval_command", command)
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


def test_every_reported_episode_has_its_task_and_seed(episodes):
    lines = episodes(reporting(task(0, [True, False], [1, 0]), task(1, [False], [0])))
    assert [(line.task, line.seed, line.success) for line in lines] == [
        ("pusht-0", 100, True),
        ("pusht-0", 101, False),
        ("pusht-1", 100, False),
    ]


@pytest.mark.parametrize(
    ("success", "reward", "progress"),
    [(True, 0.2, 1.0), (False, 0.4, 0.4), (False, 7.0, 0.99), (False, -3.0, 0.0)],
)
def test_progress_is_1_for_a_success_only(episodes, success, reward, progress):
    (line,) = episodes(reporting(task(0, [success], [reward])))
    assert line.progress == progress


def test_a_failing_evaluation_is_reported_with_its_last_words(episodes, tmp_path):
    with pytest.raises(StageFailed, match=r"exited with code 1: .*no such environment") as caught:
        episodes("raise SystemExit('ValueError: no such environment')")
    assert str(tmp_path / "evaluate" / "log.txt") in caught.value.remedy
