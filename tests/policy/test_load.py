"""From a checkpoint's name to a policy that may be asked, or to the reason why not."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from lerobot.configs import PreTrainedConfig
from safetensors.torch import load_file, save_file

from lefleet.errors import BadInput
from lefleet.policy import RtcSettings, load, load_policy
from lefleet.policy.warmup import measure
from lefleet.stages.digest import checkpoint_digest
from tests.policy import tiny
from tests.policy.asking import ask, request_for, rows_for, same
from tests.policy.tiny import model


def edited(folder: Path, source: Path, **changes) -> Path:
    """A copy of a checkpoint with another config."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return folder


def test_what_a_server_says_about_its_policy(checkpoint_of, policy_of):
    served = policy_of("act_images")
    capabilities = served.capabilities
    steps = (capabilities.chunk_size, capabilities.n_action_steps, capabilities.n_obs_steps)
    assert served.digest == checkpoint_digest(checkpoint_of("act_images"))
    assert capabilities.revision == served.digest[:12]
    assert (served.contract.policy_type, served.contract.robot_type) == ("act", "arm")
    assert steps == (8, 6, 1)
    assert (capabilities.supports_rtc, capabilities.rtc_horizon) == (False, 0)
    assert (capabilities.serving_mode, served.warnings) == ("shared", ())
    assert served.contract.cameras == {tiny.TOP: (24, 32, 3), tiny.WRIST: (24, 32, 3)}
    assert measure(served, 3) > 0


def test_what_it_says_about_others(policy_of):
    assert policy_of("diffusion_history").capabilities.n_obs_steps == 2
    assert policy_of("rtc_flow").capabilities.rtc_horizon == 10
    assert policy_of("vqbet").capabilities.serving_mode == "exclusive"
    assert "plans from nothing" in policy_of("tdmpc").warnings[0]


@pytest.mark.parametrize("name", ["vqbet", "tdmpc", "unlisted"])
def test_a_manifest_cannot_force_sharing(checkpoint_of, name):
    with pytest.raises(BadInput, match=r"serving_mode: \w+ cannot be shared: "):
        load_policy(model(checkpoint_of(name)), serving_mode="shared")


def test_a_manifest_can_force_exclusive(checkpoint_of):
    served = load_policy(model(checkpoint_of("act_environment")), serving_mode="exclusive")
    assert (served.capabilities.serving_mode, served.mode_reason) == (
        "exclusive",
        "the manifest says so",
    )
    served.reset()


def test_a_shared_policy_is_never_reset(policy_of):
    with pytest.raises(RuntimeError, match="mid-episode"):
        policy_of("act_images").reset()


def test_a_type_that_is_unknown_is_exclusive(policy_of):
    served = policy_of("unlisted")
    assert (served.capabilities.serving_mode, served.capabilities.supports_rtc) == (
        "exclusive",
        False,
    )


@pytest.mark.parametrize("inferences", [1, 3])
def test_an_impure_policy_is_caught(checkpoint_of, inferences):
    served = load_policy(model(checkpoint_of("impure")), warmup_inferences=inferences)
    assert served.capabilities.serving_mode == "exclusive"
    assert "a different chunk after another robot's request" in served.mode_reason
    with pytest.raises(BadInput, match="cannot be shared: the same request"):
        load_policy(model(checkpoint_of("impure")), serving_mode="shared")


def test_nothing_of_the_warm_up_is_left_for_the_first_robot(checkpoint_of):
    request = None
    chunks = []
    for inferences in (1, 3):
        served = load_policy(model(checkpoint_of("impure")), warmup_inferences=inferences)
        request = request or request_for(served)
        chunks.append(ask(served, request))
    assert same(*chunks)


def test_a_chunk_api_that_raises_is_found_at_start(checkpoint_of):
    with pytest.raises(BadInput, match="first chunk raises NotImplementedError: single actions"):
        load_policy(model(checkpoint_of("mute")))


def test_temporal_ensembling_is_refused_before_weights_are_read(checkpoint_of, tmp_path):
    source = checkpoint_of("act_environment")
    edited(tmp_path, source, temporal_ensemble_coeff=0.01, n_action_steps=1)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(BadInput, match="act cannot be served: temporal_ensemble_coeff is set"):
        load_policy(model(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repo_or_path": "/nowhere/at/all"}, r"model\.repo_or_path: .* does not exist"),
        ({"device": "cuda:99"}, r"model\.device: "),
        ({"device": "abacus"}, r"model\.device: "),
        ({"peft": "/nowhere"}, r"model\.peft: /nowhere holds no adapter_config\.json"),
        ({"discover_packages": ("no.such.package",)}, r"model\.discover_packages: .*no\.such"),
    ],
)
def test_settings_that_cannot_be_are_named(checkpoint_of, changes, message):
    with pytest.raises(BadInput, match=message):
        load_policy(model(checkpoint_of("act_environment"), **changes))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.safetensors", "LeRobot cannot load its weights"),
        ("policy_preprocessor.json", "has no policy_preprocessor.json"),
        ("policy_postprocessor.json", "LeRobot cannot load its processors"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused(checkpoint_of, tmp_path, file, message):
    folder = edited(tmp_path, checkpoint_of("act_environment"))
    (folder / file).unlink()
    with pytest.raises(BadInput, match=message):
        load_policy(model(folder))


def test_a_type_that_is_not_registered_is_named(checkpoint_of, tmp_path):
    folder = edited(tmp_path, checkpoint_of("act_environment"), type="warp_drive")
    with pytest.raises(BadInput, match=r"'warp_drive' .* is not registered"):
        load_policy(model(folder))


def test_what_lerobot_prints_stays_out_of_the_output(checkpoint_of, capsys):
    load_policy(model(checkpoint_of("act_environment")))
    assert capsys.readouterr().out == ""


def test_without_a_contract_order_is_trusted_or_nothing_starts(tmp_path):
    tiny.act_environment(tmp_path, contract=False)
    with pytest.raises(BadInput, match=r"contract\.action_names"):
        load_policy(model(tmp_path))
    served = load_policy(model(tmp_path), trust_order=True)
    assert served.contract.action_names == ("0", "1", "2")
    assert len(served.warnings) == 1


def test_numbers_that_training_wrote_for_want_of_names_are_no_names(tmp_path):
    """Our own training writes them beside the weights when its data has none."""
    tiny.act_environment(tmp_path)
    config = PreTrainedConfig.from_pretrained(tmp_path)
    tiny.write_contract(tmp_path, config, action_names=("0", "1", "2"))
    with pytest.raises(BadInput, match=r"contract\.action_names: .* unknown"):
        load_policy(model(tmp_path))
    assert "trusted" in load_policy(model(tmp_path), trust_order=True).warnings[0]


def test_trust_is_not_enough_where_names_decide_what_a_number_means(tmp_path):
    tiny.relative_act(tmp_path, contract=False)
    with pytest.raises(BadInput, match=r"contract\.action_names: .* except those of gripper"):
        load_policy(model(tmp_path), trust_order=True)


def test_a_policy_that_answers_with_nothing_finite_is_found_at_start(checkpoint_of, tmp_path):
    shutil.copytree(checkpoint_of("act_environment"), tmp_path, dirs_exist_ok=True)
    file = tmp_path / "model.safetensors"
    save_file({key: value * float("nan") for key, value in load_file(file).items()}, file)
    with pytest.raises(BadInput, match="NaN or infinity"):
        load_policy(model(tmp_path))


def test_rtc_can_be_off(checkpoint_of, policy_of):
    served = load_policy(model(checkpoint_of("rtc_flow")), rtc=RtcSettings(enabled=False))
    assert (served.capabilities.supports_rtc, served.capabilities.rtc_horizon) == (False, 0)
    assert same(ask(served, request_for(served)), ask(policy_of("rtc_flow"), request_for(served)))


def test_settings_of_rtc_matter(checkpoint_of, policy_of):
    usual = policy_of("rtc_flow")
    request = request_for(usual, prefix_model=rows_for(usual, 8), inference_delay_steps=1)
    for changes in (
        {"execution_horizon": 2},
        {"max_guidance_weight": 0.5},
        {"prefix_attention_schedule": "ONES"},
    ):
        served = load_policy(model(checkpoint_of("rtc_flow")), rtc=RtcSettings(**changes))
        assert served.capabilities.rtc_horizon == changes.get("execution_horizon", 10)
        assert not same(ask(served, request), ask(usual, request))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("act_environment", "bfloat16"), ("act_environment", "float16"), ("rtc_flow", "bfloat16")],
)
def test_half_precision_is_close_but_not_the_same(checkpoint_of, policy_of, name, dtype):
    exact = policy_of(name)
    served = load_policy(model(checkpoint_of(name), dtype=dtype))
    request = request_for(exact)
    chunk, expected = ask(served, request), ask(exact, request)
    assert not same(chunk, expected)
    assert chunk.robot.dtype == np.float32
    assert chunk.robot == pytest.approx(expected.robot, abs=0.3)


def test_a_hub_id_is_loaded_at_its_revision(checkpoint_of, monkeypatch):
    asked = []

    def download(name: str, revision: str) -> str:
        asked.append((name, revision))
        return str(checkpoint_of("act_environment"))

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    load_policy(model("user/name", revision="v2"))
    assert asked == [("user/name", "v2")]


def test_full_precision_is_what_the_checkpoint_has(checkpoint_of, policy_of):
    served = load_policy(model(checkpoint_of("act_environment"), dtype="float32"))
    request = request_for(served)
    assert same(ask(served, request), ask(policy_of("act_environment"), request))


def test_weights_that_were_changed_in_place_are_another_checkpoint(checkpoint_of, tmp_path):
    folder = edited(tmp_path, checkpoint_of("act_environment"))
    before = load_policy(model(folder))
    file = folder / "model.safetensors"
    save_file({key: value * 2 for key, value in load_file(file).items()}, file)
    after = load_policy(model(folder))
    assert before.digest != after.digest
    assert before.capabilities.revision != after.capabilities.revision


def test_files_that_change_while_they_are_loaded_are_refused(checkpoint_of, tmp_path, monkeypatch):
    """What is served must be what the digest was taken of."""
    folder = edited(tmp_path, checkpoint_of("act_environment"))

    def load_then_change(files, config):
        loaded = load_weights(files, config)
        weights = files.base / "model.safetensors"
        save_file({key: value * 2 for key, value in load_file(weights).items()}, weights)
        return loaded

    load_weights = load.load_weights
    monkeypatch.setattr(load, "load_weights", load_then_change)
    with pytest.raises(BadInput, match="changed while they were loaded"):
        load_policy(model(folder))


def test_weights_that_a_checkpoint_has_are_not_downloaded_first(
    checkpoint_of, policy_of, tmp_path, monkeypatch
):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    named = {"pretrained_backbone_weights": "ResNet18_Weights.IMAGENET1K_V1"}
    served = load_policy(model(edited(tmp_path / "c", checkpoint_of("act_images"), **named)))
    assert served.contract == policy_of("act_images").contract
    assert not (tmp_path / "cache").exists()
