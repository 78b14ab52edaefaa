"""What a run would do, without doing anything."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from lefleet.cli.parse import parse
from lefleet.loop.config import load_config
from lefleet.loop.plan import by_hand, plan_lines
from lefleet.loop.requests import count_tasks
from lefleet.loop.steps import Propose, RunStage
from lefleet.records import (
    Budgets,
    DatasetSource,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    RunConfig,
    Rung,
    TrainRequest,
)
from tests.loop.states import origin, play

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(params=["demo", "metaworld_mt10"])
def planned(request, tmp_path):
    """A config and its plan."""
    config = load_config(CONFIGS / f"{request.param}.yaml")
    return config, list(plan_lines(config, tmp_path / "r")), tmp_path


def commands(lines: list[str], *begin: str) -> list[list[str]]:
    """The commands in a plan that begin so."""
    found = [shlex.split(line) for line in lines]
    return [argv for argv in found if tuple(argv[: len(begin)]) == begin]


def test_nothing_is_written(planned):
    assert list(planned[2].iterdir()) == []


def test_every_cycle_trains_with_the_exact_flags(planned):
    config, lines, folder = planned
    trainings = commands(lines, sys.executable, "-m", "lefleet.compat.train")
    assert len(trainings) == config.budgets.cycles
    for number, argv in enumerate(trainings):
        assert f"--steps={config.ladder[0].steps}" in argv
        last = f"{folder}/r/cycle_{number - 1}/train/training/checkpoints"
        start = f"--policy.path={last}/{config.ladder[0].steps:06d}/pretrained_model"
        assert (start if number else "--policy.type=act") in argv
        data = "merged" if number else "dataset"
        assert f"--dataset.root={folder}/r/cycle_{number}/collect/{data}" in argv
        assert f"--seed={number}" in argv
        assert f"--output_dir={folder}/r/cycle_{number}/train/training" in argv


def test_every_stage_but_the_gates_is_a_command_for_a_person(planned):
    config, lines, folder = planned
    typed = [parse(argv[1:]).command for argv in commands(lines, "lefleet")]
    last = config.budgets.cycles - 1
    improves = config.improve.method != "none"
    assert [str(command.out) for command in typed] == [
        f"{folder}/r/cycle_{number}/{stage}"
        for number in range(config.budgets.cycles)
        for stage in ("collect", "train", "evaluate", "improve")
        if not (stage == "improve" and (number == last or not improves))
    ]
    assert not any("stage exec" in line or "rollouts.worker" in line for line in lines)


@pytest.mark.parametrize(
    "request_",
    [
        ExpertDemos(tasks=("push", "reach"), noise=0.1, add_to=("a", "b")),
        ExistingDataset(repo_id="user/name", tasks=("pick up the cube",)),
        TrainRequest(
            dataset="a b",
            policy={"dim_model": "8"},
            memory_data=False,
            extra_args=("--steps=7", "--x", "y"),
        ),
        EvaluateRequest(checkpoint="c", env={"type": "pusht", "task": "PushT-v0"}, seed=7),
        ImproveRequest(checkpoint="c", demos="d", mixing_ratio=0.25),
    ],
)
def test_the_command_for_a_person_asks_for_the_same(request_):
    typed = parse(list(by_hand(request_, Path("out"))[1:])).command
    assert (typed.request, typed.out) == (request_, Path("out"))


def test_a_plan_has_the_steps_of_a_run_whose_checkpoints_are_all_blessed(planned):
    config, lines, _ = planned
    shown = [line.strip().partition(":")[0] for line in lines if line.startswith("  ")]
    steps = play(config, "baseline" + " promote" * (config.budgets.cycles - 1))[:-1]
    steps = [step for step in steps if not isinstance(step, Propose)]
    names = [step.stage if isinstance(step, RunStage) else "decide" for step in steps]
    assert [name for name in shown if name in {*names, "decide"}] == names


@pytest.mark.parametrize("name", ["pusht", "libero_smolvla_pi05"])
def test_configs_for_the_hub_are_planned_with_their_exact_commands(name, tmp_path):
    config = load_config(CONFIGS / f"{name}.yaml")
    lines = list(plan_lines(config, tmp_path / "r"))
    trainings = commands(lines, sys.executable, "-m", "lefleet.compat.train")
    evaluations = commands(lines, "lefleet", "eval")
    assert len(trainings) == len(evaluations) == config.budgets.cycles
    assert all(f"--dataset.repo_id={config.collect.repo_id}" in argv for argv in trainings)
    kind = config.evaluate.env["type"]
    assert all(argv[argv.index("--env") + 1 :][:2] == ["type", kind] for argv in evaluations)
    assert list(tmp_path.iterdir()) == []


def test_a_suite_is_counted_by_the_tasks_of_its_data():
    config = load_config(CONFIGS / "libero_smolvla_pi05.yaml")
    assert count_tasks(config) == 10


def test_levels_of_later_gates_are_stricter(planned):
    levels = [line.rpartition(" ")[2] for line in planned[1] if line.startswith("  gate:")]
    assert len(set(levels)) == len(levels)


def test_the_first_cycle_has_no_gate(planned):
    config, lines, _ = planned
    gates = [line for line in lines if line.startswith("  gate:")]
    assert len(gates) == config.budgets.cycles - 1


def test_improving_is_planned_where_the_config_asks_for_it(planned):
    config, lines, _ = planned
    improvements = [line for line in lines if line.startswith("  improve:")]
    expected = 0 if config.improve.method == "none" else config.budgets.cycles - 1
    assert len(improvements) == expected


def test_a_run_from_another_one_is_planned_with_what_it_takes(tmp_path):
    of = RunConfig(name="r", ladder=(Rung(name="small"),), budgets=Budgets(cycles=2))
    lines = list(plan_lines(of, tmp_path, origin()))
    assert lines[2:5] == [
        "from a:2: blessed checkpoint a2, 3 of 4 episodes successful",
        "  data: 1 datasets of a, which every cycle adds to",
        "  training: continues from that checkpoint, of rung small",
    ]
    collected, *_ = [line for line in lines if line.startswith("  collect:")]
    assert collected.endswith("2 new demonstrations per task, 2 in all beside those of a")
    gates = [line for line in lines if line.startswith("  gate:")]
    assert [line.split("seed ")[1].split(",")[0] for line in gates] == ["300030000", "300040000"]
    (training, _) = commands(lines, sys.executable, "-m", "lefleet.compat.train")
    assert "--policy.path=/a2" in training
    assert f"--dataset.root={tmp_path}/cycle_0/collect/merged" in training


def test_a_run_with_another_policy_is_planned_to_begin_anew(tmp_path):
    of = RunConfig(name="r", ladder=(Rung(name="big", policy={"dim_model": "9"}),))
    lines = list(plan_lines(of, tmp_path, origin()))
    assert lines[4].startswith("  training: begins anew, because no rung has the policy of small;")
    assert "  train: 1000 steps of act" in lines


@pytest.mark.parametrize(
    ("changes", "starts"),
    [
        ({}, ["", ", from the blessed checkpoint"]),
        ({"continue_training": False}, ["", ""]),
        ({"rung": {"init": "a/b"}}, [", from a/b", ", from the blessed checkpoint"]),
        ({"continue_training": False, "rung": {"init": "a/b"}}, [", from a/b", ", from a/b"]),
    ],
)
def test_a_training_says_where_it_starts(tmp_path, changes, starts):
    rung = Rung(name="small", **changes.pop("rung", {}))
    of = RunConfig(name="r", ladder=(rung,), budgets=Budgets(cycles=2), **changes)
    lines = [line for line in plan_lines(of, tmp_path) if line.startswith("  train:")]
    assert lines == [f"  train: 1000 steps of act{start}" for start in starts]


def test_a_plan_says_what_proposals_and_people_may_change(tmp_path):
    flags = ("--propose.split=failure", "--improve.method=auto", "--approvals.promote=human")
    flags += ("--propose.model=openai-chat:m@http://127.0.0.1:9/v1",)
    plain = "\n".join(plan_lines(load_config(CONFIGS / "demo.yaml"), tmp_path / "r"))
    governed = "\n".join(plan_lines(load_config(CONFIGS / "demo.yaml", flags), tmp_path / "r"))
    for words in ("fail more often", "is asked before each cycle", "wait for a person", "auto"):
        assert words not in plain
    for words in ("fail more often", "openai-chat:m", "promotions wait for a person", "helped"):
        assert words in governed


def test_a_plan_says_how_an_existing_dataset_grows(tmp_path):
    flags = ("--collect.episodes_per_task=[10, 20]", "--budgets.cycles=3")
    lines = list(plan_lines(load_config(CONFIGS / "pusht.yaml", flags), tmp_path / "r"))
    collects = [line for line in lines if line.startswith("  collect:")]
    assert collects == [
        "  collect: 10 episodes per task of an existing dataset",
        "  collect: 20 episodes per task of an existing dataset: the 10 of the cycle before and 10 "
        "more",
        "  collect: 30 episodes per task of an existing dataset: the 20 of the cycle before and 10 "
        "more",
    ]


def test_a_run_on_a_state_alone_starts_from_the_policy_that_its_stage_makes(tmp_path):
    data = tmp_path / "data"
    (data / "meta").mkdir(parents=True)
    vector = {"dtype": "float32", "shape": [2], "names": ["a.pos", "b.pos"]}
    features = {"action": vector, "observation.state": vector}
    info = {"fps": 20, "robot_type": "arm", "total_episodes": 2, "features": features}
    (data / "meta" / "info.json").write_text(json.dumps(info))
    config = RunConfig(
        name="r",
        tasks=("park",),
        collect=DatasetSource(root=str(data)),
        ladder=(Rung(name="a"),),
        budgets=Budgets(cycles=1),
    )
    lines = list(plan_lines(config, tmp_path / "r"))
    (argv,) = commands(lines, sys.executable, "-m", "lefleet.compat.train")
    assert f"--policy.path={tmp_path}/r/cycle_0/train/fresh_policy" in argv
    assert not any(flag.startswith("--policy.type=") for flag in argv)
