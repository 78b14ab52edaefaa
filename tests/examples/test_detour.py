"""The environment of one's own in examples/detour, from its expert to a served policy."""

import json
import os
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from lefleet import CompareRequest, EvaluateRequest, ExpertDemos, TrainRequest, run_stage
from lefleet.errors import BadInput
from lefleet.loop.config import load_config
from lefleet.loop.plan import plan_lines

FOLDER = Path(__file__).parents[2] / "examples" / "detour"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the examples are in the repository only"
)
ENV = {"type": "detour", "discover_packages_path": "detour"}


@pytest.fixture(scope="module", autouse=True)
def installed():
    """As `pip install ./examples/detour` would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{FOLDER}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        patch.syspath_prepend(str(FOLDER))
        yield
    for name in [one for one in sys.modules if one.partition(".")[0] == "detour"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def stages(installed, tmp_path_factory):
    return tmp_path_factory.mktemp("detour")


@pytest.fixture(scope="module")
def demonstrations(stages):
    asked = ExpertDemos(env=ENV, episodes_per_task=6, noise=0.2, workers=1)
    return run_stage(asked, stages / "collect")


@pytest.fixture(scope="module")
def trained(stages, demonstrations):
    return run_stage(TrainRequest(dataset=str(stages / "collect"), steps=40), stages / "train")


@pytest.fixture(scope="module")
def untrained(stages, demonstrations):
    return run_stage(TrainRequest(dataset=str(stages / "collect"), steps=1), stages / "untrained")


def test_its_expert_demonstrates(demonstrations):
    assert demonstrations.tasks == {"go to the goal around the obstacle": 6}
    assert demonstrations.fps == 10
    assert demonstrations.tallies["detour-0"].attempted == 6
    info = json.loads((Path(demonstrations.root) / "meta" / "info.json").read_bytes())
    assert info["robot_type"] == "detour"
    assert info["features"]["action"]["names"] == ["x.vel", "y.vel"]
    assert info["features"]["observation.environment_state"]["shape"] == [4]


def test_what_is_recorded_is_what_was_observed_and_the_expert_s_action(demonstrations):
    from detour.env import DetourEnv
    from detour.expert import choose
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    frame = LeRobotDataset("local/dataset", root=demonstrations.root)[0]
    first, _ = DetourEnv().reset(seed=0)
    assert np.array_equal(frame["observation.state"], first["agent_pos"])
    assert np.array_equal(frame["observation.environment_state"], first["environment_state"])
    assert np.array_equal(frame["action"], choose(first))


def test_a_policy_is_trained_evaluated_and_judged(stages, trained, untrained):
    evaluated = run_stage(
        EvaluateRequest(checkpoint=str(stages / "train"), env=ENV, episodes_per_task=4, workers=1),
        stages / "evaluate",
    )
    assert evaluated.tasks == ("detour-0",)
    assert list((stages / "evaluate" / "videos").iterdir())
    judged = run_stage(
        CompareRequest(
            checkpoint=str(stages / "train"),
            baseline=str(stages / "untrained"),
            env=ENV,
            max_pairs=10,
            metric="progress",
            workers=1,
        ),
        stages / "gate",
    )
    assert judged.tasks == ("detour-0",)
    assert judged.gate.pairs >= 5
    lines = (stages / "gate" / "episodes.jsonl").read_text().splitlines()
    starts = {(one["policy"], one["seed"]): one["start"] for one in map(json.loads, lines)}
    assert starts["candidate", judged.first_seed] == starts["baseline", judged.first_seed] != ""
    assert len(set(starts.values())) == len({seed for _, seed in starts})


def test_a_policy_is_served_under_the_names_of_its_environment(trained):
    from lefleet.policy import ModelSettings, load_policy

    served = load_policy(ModelSettings(repo_or_path=trained.path))
    assert served.contract.action_names == ("x.vel", "y.vel")
    assert served.contract.vectors["observation.state"] == ("x.pos", "y.pos")
    assert served.contract.robot_type == "detour"


def test_its_config_asks_for_demonstrations_and_gates_there(tmp_path):
    config = load_config(FOLDER / "run.yaml")
    lines = "\n".join(plan_lines(config, tmp_path / "r"))
    flags = "--env type detour discover_packages_path detour"
    assert lines.count(f"collect expert --tasks detour-0 --episodes-per-task 2 --noise 0.2 {flags}")
    assert lines.count(flags) == 2 * config.budgets.cycles


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tasks": ("detour-1",)}, "tasks: detour has no task 'detour-1'"),
        ({"episodes": {"detour": 3}}, "episodes: 'detour' is not one of the tasks"),
        ({"env": {"type": "pusht"}}, "env: no expert is registered for pusht"),
    ],
)
def test_what_its_expert_cannot_do_is_refused(tmp_path, changes, problem):
    asked = msgspec.structs.replace(ExpertDemos(env=ENV), **changes)
    with pytest.raises(BadInput, match=problem):
        run_stage(asked, tmp_path / "collect")
    assert not (tmp_path / "collect").exists()
