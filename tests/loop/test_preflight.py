"""What is found before a run begins."""

import json

import msgspec
import pytest

from lefleet.errors import BadInput, Denied
from lefleet.ledger import open_ledger
from lefleet.loop import preflight
from lefleet.loop.findings import CheckResult, Preflight, result_lines
from lefleet.loop.preflight import examine_config, ready_config
from lefleet.records import DatasetSource, EvaluatePlan, ExpertGrowth, Rung
from lefleet.records.executor import ExecutorPlan
from lefleet.rollouts import EnvironmentDescription
from lefleet.sim.render import ImageSize
from lefleet.stages import extras
from lefleet.stages.environment_probe import EnvironmentReport
from lefleet.stages.extras import extra_of_environment, extra_of_policy, install_command
from tests.devices import needs_no_gpu
from tests.loop.states import config

OURS = {"discover_packages_path": "lefleet.sim", "type": "lefleet_metaworld", "task": "push"}
IN_OURS = EvaluatePlan(env=OURS)
KEPT = DatasetSource(repo_id="lab/data")
SHOWN = EnvironmentDescription(
    type="lefleet_metaworld",
    tasks={"push-0": "push"},
    steps={"push-0": 9},
    fps=80,
    observations={"observation.state": (4,)},
    action=4,
)


@pytest.fixture
def environment(monkeypatch):
    """What a child process would say of the environment; `asked` are the flags."""
    answer = {"report": EnvironmentReport(description=SHOWN), "asked": []}

    def ask(env, rules):
        answer["asked"].append(env)
        return answer["report"]

    monkeypatch.setattr(preflight, "_ask_about", ask)
    return answer


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Writes the description of the dataset lab/data into LeRobot's cache."""
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "cache"))

    def write(place: str = "lab/data", fps: int = 80, **shapes: list[int]) -> None:
        folder = tmp_path / "cache" / place / "meta"
        folder.mkdir(parents=True)
        sizes = {"action": [4], "observation.state": [4]} | shapes
        features = {key: {"dtype": "float32", "shape": shape} for key, shape in sizes.items()}
        info = {"fps": fps, "total_episodes": 5, "features": features}
        (folder / "info.json").write_text(json.dumps(info))

    return write


def states(found: Preflight) -> dict[str, str]:
    return {one.name: one.state for one in found.results}


def test_a_run_in_lefleets_own_simulation_starts_no_process(tmp_path, environment):
    found = examine_config(tmp_path, config())
    assert set(states(found)) == {"device", "ladder[0].policy_type", "ladder[1].policy_type"}
    assert set(states(found).values()) == {"ok"}
    assert environment["asked"] == []
    assert found.require_ok() == config()


SEEN = ExpertGrowth(cameras=("corner", "top"), image_size=64)


def test_a_cluster_that_no_executor_uses_is_a_warning(tmp_path, environment):
    plan = ExecutorPlan(address="http://10.0.0.5:8265")
    found = examine_config(tmp_path, config(executor=plan))
    (warning,) = (one for one in found.results if one.state == "warning")
    assert warning.name == "executor.type"
    assert "this machine" in warning.found


def test_cameras_that_cannot_be_rendered_are_found_before_anything_starts(tmp_path, monkeypatch):
    asked = []

    def cannot_render(cameras, field):
        asked.append(cameras)
        raise BadInput(f"{field}: there is no OpenGL.", "Install it.")

    monkeypatch.setattr(preflight, "require_rendering", cannot_render)
    untrained = Rung(name="small", policy={"pretrained_backbone_weights": "null"})
    found = examine_config(tmp_path, config(collect=SEEN, ladder=(untrained,)))
    assert states(found)["collect.cameras"] == "problem"
    with pytest.raises(BadInput, match=r"collect\.cameras: there is no OpenGL\. Install it"):
        found.require_ok()
    assert asked == [dict.fromkeys(("corner", "top"), ImageSize(64, 64))]


def test_cameras_of_recorded_data_are_rendered_too(tmp_path, monkeypatch, kept):
    kept(**{"observation.images.top": [48, 64, 3]})
    monkeypatch.setattr(preflight, "require_rendering", lambda *_: None)
    found = examine_config(tmp_path, config(collect=KEPT))
    (line,) = (one.found for one in found.results if one.name == "collect.cameras")
    assert line == "can be rendered: top 48 x 64"


def test_data_and_environment_that_agree_are_fine(tmp_path, environment, kept):
    kept()
    of = config(collect=KEPT, evaluate=IN_OURS)
    found = examine_config(tmp_path, of)
    assert environment["asked"] == [OURS]
    assert set(states(found).values()) == {"ok"}
    assert "collect, evaluate.env" in states(found)
    assert found.require_ok() == of


def test_data_and_environment_that_disagree_are_refused_before_anything_starts(
    tmp_path, environment, kept
):
    kept(action=[7])
    found = examine_config(tmp_path, config(collect=KEPT, evaluate=IN_OURS))
    with pytest.raises(BadInput, match=r"collect, evaluate\.env: action has 7 numbers in the data"):
        found.require_ok()


def test_another_rate_is_a_warning(tmp_path, environment, kept):
    kept(fps=10)
    found = examine_config(tmp_path, config(collect=KEPT, evaluate=IN_OURS))
    assert states(found)["collect, evaluate.env"] == "warning"
    found.require_ok()


def test_a_real_child_makes_the_environment_and_finds_the_disagreement(tmp_path, kept):
    kept(**{"observation.joints": [6]})
    found = examine_config(tmp_path, config(collect=KEPT, evaluate=IN_OURS))
    assert states(found)["evaluate.env"] == "ok"
    with pytest.raises(BadInput, match=r"the data has observation\.joints, the environment shows"):
        found.require_ok()


def test_an_environment_that_cannot_be_made_is_refused_with_its_remedy(tmp_path, environment):
    problem, remedy = "env.type: no environment is called 'x'.", "Did you mean y?"
    environment["report"] = EnvironmentReport(problem=problem, remedy=remedy)
    found = examine_config(tmp_path, config(evaluate=EvaluatePlan(env={"type": "x"})))
    with pytest.raises(BadInput) as refused:
        found.require_ok()
    assert refused.value.problem == "evaluate.env.type: no environment is called 'x'."
    assert refused.value.remedy == remedy


def test_one_command_installs_all_that_is_missing(tmp_path, environment, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    ladder = (Rung(name="a", policy_type="smolvla"), Rung(name="b", policy_type="pi05"))
    of = config(ladder=ladder, evaluate=EvaluatePlan(env={"type": "aloha"}))
    lines = list(result_lines(examine_config(tmp_path, of).results))
    assert [line for line in lines if "->" in line] == [
        '         -> Run: make env EXTRAS="smolvla pi aloha"'
    ]


def test_a_checkpoint_that_takes_more_than_the_environment_shows(tmp_path, environment):
    inputs = {"observation.force": {"type": "STATE", "shape": [3]}}
    saved = {"type": "act", "input_features": inputs}
    (tmp_path / "config.json").write_text(json.dumps(saved))
    of = config(evaluate=IN_OURS, ladder=(Rung(name="a", init=str(tmp_path)),))
    with pytest.raises(BadInput, match=r"^ladder\[0\].init: the policy takes observation.force"):
        examine_config(tmp_path, of).require_ok()


def test_a_missing_package_of_an_environment_is_found_without_a_process(
    tmp_path, environment, monkeypatch
):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    found = examine_config(tmp_path, config(evaluate=EvaluatePlan(env={"type": "pusht"})))
    with pytest.raises(BadInput, match=r"^evaluate\.env\.type: pusht needs gym_pusht") as refused:
        found.require_ok()
    assert refused.value.remedy == f"Run: {install_command([extra_of_environment('pusht')])}"
    assert environment["asked"] == []


def test_an_environment_that_must_not_be_made_is_a_warning(tmp_path, environment):
    environment["report"] = EnvironmentReport()
    found = examine_config(tmp_path, config(evaluate=IN_OURS))
    assert states(found)["evaluate.env"] == "warning"


def test_every_rung_is_looked_at_and_further_problems_are_counted(
    tmp_path, environment, monkeypatch
):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    ladder = (Rung(name="a"), Rung(name="b", policy_type="pi05"), Rung(name="c", init="/no/such"))
    found = examine_config(tmp_path, config(ladder=ladder))
    with pytest.raises(BadInput, match=r"ladder\[1\]\.policy_type: pi05 needs a camera") as refused:
        found.require_ok()
    assert refused.value.remedy.endswith("Or add collect.cameras. And 2 further problems.")
    libraries, start = found.besides_first_problem()
    assert libraries.remedy == f"Run: {install_command([extra_of_policy('pi05')])}"
    assert start.name == "ladder[2].init"


@pytest.mark.parametrize(
    ("source", "offline", "name", "state"),
    [
        (DatasetSource(root="/no/such"), "", "collect.root", "problem"),
        (DatasetSource(repo_id="nonsense"), "", "collect.repo_id", "problem"),
        (KEPT, "1", "collect.repo_id", "problem"),
        (KEPT, "", "collect.repo_id", "warning"),
    ],
)
def test_data_that_is_not_here(tmp_path, kept, monkeypatch, source, offline, name, state):
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    found = examine_config(tmp_path, config(collect=source))
    assert states(found)[name] == state


@pytest.mark.parametrize("place", ["lab/data", "hub/datasets--lab--data/snapshots/abc"])
def test_data_in_lerobots_cache_is_looked_at(tmp_path, kept, place):
    kept(place)
    found = examine_config(tmp_path, config(collect=KEPT))
    assert states(found)["collect"] == "ok"


@pytest.mark.parametrize(
    ("init", "offline", "state"),
    [
        ("{here}", "1", "ok"),
        ("lab/kept", "1", "ok"),
        ("lab/other", "1", "problem"),
        ("lab/other", "", "warning"),
        ("/no/such/folder", "", "problem"),
    ],
)
def test_checkpoints_to_start_from(tmp_path, monkeypatch, init, offline, state):
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    weights = tmp_path / "hub" / "models--lab--kept" / "snapshots" / "abc"
    weights.mkdir(parents=True)
    (weights / "config.json").touch()
    (tmp_path / "config.json").write_text('{"type": "act"}')
    rung = Rung(name="a", init=init.format(here=tmp_path))
    assert states(examine_config(tmp_path, config(ladder=(rung,))))["ladder[0].init"] == state


def test_libraries_of_a_checkpoint_to_start_from_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    (tmp_path / "config.json").write_text('{"type": "pi05"}')
    found = examine_config(tmp_path, config(ladder=(Rung(name="a", init=str(tmp_path)),)))
    with pytest.raises(BadInput, match=r"^ladder\[0\]\.init: pi05 needs transformers"):
        found.require_ok()


@needs_no_gpu
def test_a_missing_device_is_one_of_the_findings(tmp_path):
    found = examine_config(tmp_path, config(device="cuda"))
    assert states(found)["device"] == "problem"
    with pytest.raises(BadInput, match=r"^device: cuda cannot be used"):
        found.require_ok()


def test_what_the_rules_do_not_allow_is_not_tried(tmp_path, environment):
    (tmp_path / "constitution.yaml").write_text("version: 1\nown_config: false\n")
    with pytest.raises(Denied):
        examine_config(tmp_path, config(evaluate=EvaluatePlan(env={"type": "pusht"})))
    assert environment["asked"] == []


def test_a_run_that_has_begun_is_not_examined_again(tmp_path, environment):
    of = config(device="cuda", evaluate=IN_OURS)
    ledger = open_ledger(tmp_path)
    ledger.create_run(of.name, msgspec.to_builtins(of))
    ledger.close()
    found = ready_config(tmp_path, of)
    assert (found.results, environment["asked"]) == ((), [])


def test_findings_are_printed_with_their_remedies():
    results = [
        CheckResult(name="device", state="ok", found="cpu"),
        CheckResult(name="evaluate.env", state="problem", found="x", remedy="y"),
    ]
    assert list(result_lines(results)) == [
        "ok       device: cpu",
        "problem  evaluate.env: x",
        "         -> y",
    ]
