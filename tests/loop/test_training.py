"""Trainings of a run that cannot work are refused before the run starts."""

import json
from pathlib import Path

import pytest

from lefleet.errors import BadInput
from lefleet.loop import preflight
from lefleet.loop.config import load_config
from lefleet.loop.plan import plan_lines
from lefleet.loop.training import require_trainable
from lefleet.records import Rung
from lefleet.stages import backbone, extras
from lefleet.stages.environment_probe import EnvironmentReport
from tests.cli.conftest import lefleet  # noqa: F401 - a fixture
from tests.loop.states import config

VECTOR = {"dtype": "float32", "shape": [2], "names": ["pan.pos", "lift.pos"]}
IMAGE = {"dtype": "video", "shape": [24, 32, 3], "names": ["height", "width", "channels"]}
FEATURES = {
    "action": VECTOR,
    "observation.state": VECTOR,
    "observation.environment_state": VECTOR,
}
DEGREES = {"min": [-90, 0], "max": [90, 45], "mean": [1, 20], "std": [40, 10]}
CONFIG = """
name: own
tasks: [open the drawer]
collect: {{source: dataset, root: {root}}}
ladder: [{{name: small, {rung}}}]
evaluate: {{env: {{type: pusht}}}}
budgets: {{cycles: 1}}
"""


@pytest.fixture
def root(tmp_path) -> Path:
    return write(tmp_path / "data", FEATURES)


def write(root: Path, features: dict) -> Path:
    """The metadata of a dataset of somebody's arm."""
    (root / "meta").mkdir(parents=True)
    info = {"robot_type": "so101_follower", "fps": 30, "total_frames": 9, "features": features}
    (root / "meta" / "info.json").write_text(json.dumps(info))
    (root / "meta" / "stats.json").write_text(json.dumps(dict.fromkeys(features, DEGREES)))
    return root


def configured(tmp_path: Path, root: Path, rung: str = "policy_type: act") -> Path:
    file = tmp_path / "run.yaml"
    file.write_text(CONFIG.format(root=root, rung=rung))
    return file


def test_a_plan_shows_the_normalisation_of_data_on_this_machine(tmp_path, root):
    of = load_config(configured(tmp_path, root))
    lines = list(plan_lines(of, tmp_path / "runs"))
    (line,) = [line for line in lines if line.startswith("    normalisation: ")]
    assert "MEAN_STD for VISUAL, STATE, ACTION, ENV" in line
    (training,) = [line for line in lines if "lefleet.compat.train" in line]
    assert '"ENV": "MEAN_STD"' in training
    assert "--policy.dim_model=64" in training


def test_data_that_cannot_work_is_refused(tmp_path, root):
    stats = root / "meta" / "stats.json"
    stats.write_text(stats.read_text().replace("45", "NaN"))
    with pytest.raises(BadInput, match=r"^collect.root: action: lift.pos holds values"):
        require_trainable(load_config(configured(tmp_path, root)))


def test_every_rung_is_looked_at(tmp_path, root):
    rungs = "policy_type: act}, {name: large, policy_type: nonsense"
    with pytest.raises(BadInput, match=r"^ladder\[1\].policy_type: .*nonsense"):
        require_trainable(load_config(configured(tmp_path, root, rungs)))
    seen = write(tmp_path / "seen", FEATURES | {"observation.images.top": IMAGE})
    rungs = "policy_type: smolvla}, {name: large, policy_type: pi05"
    with pytest.raises(BadInput, match=r"^collect.root: action: .* no q01, q99"):
        require_trainable(load_config(configured(tmp_path, seen, rungs)))


def test_a_checkpoint_that_takes_values_as_they_are_is_refused(tmp_path, root):
    folder = tmp_path / "simulated"
    folder.mkdir()
    mapping = dict.fromkeys(("STATE", "ENV", "ACTION"), "IDENTITY")
    policy = {"type": "act", "normalization_mapping": mapping}
    (folder / "config.json").write_text(json.dumps(policy))
    with pytest.raises(BadInput, match=r"^collect.root: action: .*IDENTITY"):
        require_trainable(load_config(configured(tmp_path, root, f"init: {folder}")))


def test_a_checkpoint_of_another_arm_is_refused(tmp_path, root):
    folder = tmp_path / "other"
    folder.mkdir()
    inputs = {"observation.state": {"type": "STATE", "shape": [7]}}
    (folder / "config.json").write_text(json.dumps({"type": "act", "input_features": inputs}))
    with pytest.raises(BadInput, match=r"^ladder\[0\].init: the policy takes observation.state"):
        require_trainable(load_config(configured(tmp_path, root, f"init: {folder}")))


@pytest.mark.parametrize("content", ["{", "{}", "[1]"])
def test_a_description_that_cannot_be_used_is_refused(tmp_path, root, content):
    (root / "meta" / "info.json").write_text(content)
    with pytest.raises(BadInput, match=r"meta/info\.json"):
        require_trainable(load_config(configured(tmp_path, root)))


def test_cameras_without_a_network_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(backbone, "is_reachable", lambda url: False)
    root = write(tmp_path / "data", FEATURES | {"observation.images.top": IMAGE})
    with pytest.raises(BadInput, match=r"^ladder\[0\].policy: with cameras"):
        require_trainable(load_config(configured(tmp_path, root)))
    without = "policy: {pretrained_backbone_weights: 'null'}"
    require_trainable(load_config(configured(tmp_path, root, without)))


def test_a_library_that_is_missing_is_refused_after_what_the_data_lacks(tmp_path, monkeypatch):
    root = write(tmp_path / "data", FEATURES | {"observation.images.top": IMAGE})
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    of = load_config(configured(tmp_path, root, "policy_type: smolvla"))
    with pytest.raises(BadInput, match=r"^ladder\[0\].policy_type: smolvla needs transformers"):
        require_trainable(of)
    blind = write(tmp_path / "blind", FEATURES)
    of = load_config(configured(tmp_path, blind, "policy_type: smolvla"))
    with pytest.raises(BadInput, match=r"^collect.root: smolvla needs a camera"):
        require_trainable(of)


def test_data_that_is_not_here_is_left_to_its_stage(tmp_path):
    require_trainable(load_config(configured(tmp_path, tmp_path / "nowhere")))


def test_a_checkpoint_that_takes_more_than_the_simulation_shows_is_refused(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    inputs = {"observation.force": {"type": "STATE", "shape": [7]}}
    (folder / "config.json").write_text(json.dumps({"type": "act", "input_features": inputs}))
    of = config(ladder=(Rung(name="a", init=str(folder)),))
    with pytest.raises(BadInput, match=r"^ladder\[0\].init: the policy takes observation.force"):
        require_trainable(of)


@pytest.mark.parametrize("flags", [(), ("--plan",)])
def test_the_command_leaves_nothing_behind(
    tmp_path,
    root,
    lefleet,  # noqa: F811
    monkeypatch,
    flags,
):
    monkeypatch.setattr(preflight, "_ask_about", lambda env, rules: EnvironmentReport())
    (root / "meta" / "stats.json").unlink()
    code, out, err = lefleet("run", "-c", str(configured(tmp_path, root)), *flags)
    assert code == 2
    assert "collect.root: action: meta/stats.json has no statistics of it" in out + err
    assert not (tmp_path / "runs").exists()
