"""How LeRobot finds the policy, and what its flags say."""

from importlib import metadata
from pathlib import Path

import draccus
import pytest
from lerobot.configs import FeatureType, PolicyFeature, PreTrainedConfig
from lerobot.configs.eval import EvalPipelineConfig
from lerobot.envs.configs import PushtEnv
from lerobot.policies.factory import get_policy_class, make_policy, make_pre_post_processors

import lerobot_policy_lefleet
from lefleet_client.transport import Tls
from lerobot_policy_lefleet.configuration_lefleet import LefleetConfig
from lerobot_policy_lefleet.modeling_lefleet import LefleetPolicy
from tests.test_architecture import imported


def test_the_distribution_has_the_name_that_lerobot_looks_for():
    assert metadata.metadata("lerobot_policy_lefleet")["Name"] == "lerobot_policy_lefleet"
    assert get_policy_class("lefleet") is LefleetPolicy


def test_the_plugin_imports_nothing_of_lefleet():
    folder = Path(lerobot_policy_lefleet.__file__).parent
    names = {name for path in folder.glob("*.py") for name in imported(path.read_text())}
    assert "lefleet_client.remote" in names
    assert [name for name in names if name.split(".")[0] == "lefleet"] == []


def test_flags_are_read_as_lerobot_reads_them():
    parsed = draccus.parse(
        EvalPipelineConfig,
        args=[
            "--env.type=pusht",
            "--policy.type=lefleet",
            "--policy.connect=tcp/a:1, tcp/b:2",
            "--policy.service=fold",
            "--policy.timeout_s=2",
            '--policy.rename_map={"observation.image": "observation.images.top"}',
        ],
    )
    config = parsed.policy
    assert config.type == "lefleet"
    assert config.endpoints == ("tcp/a:1", "tcp/b:2")
    assert (config.service, config.timeout_s) == ("fold", 2.0)
    assert config.rename_map == {"observation.image": "observation.images.top"}
    assert config.certificates is None


def test_a_folder_of_certificates_is_enough():
    parsed = draccus.parse(
        EvalPipelineConfig,
        args=[
            "--env.type=pusht",
            "--policy.type=lefleet",
            "--policy.connect=tls/a:1",
            "--policy.tls=certs/robot-arm",
            "--policy.insecure=true",
        ],
    )
    assert parsed.policy.certificates == Tls.folder("certs/robot-arm")
    assert parsed.policy.insecure
    with pytest.raises(ValueError, match=r"^tls: a folder holds"):
        LefleetConfig(tls="certs/robot-arm", tls_ca="ca", tls_cert="cert", tls_key="key")


def test_certificates_need_all_three_files():
    config = LefleetConfig(tls_ca="ca", tls_cert="cert", tls_key="key")
    assert config.certificates == Tls(ca="ca", cert="cert", key="key")
    with pytest.raises(ValueError, match="all three"):
        LefleetConfig(tls_ca="ca")


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ({"connect": " ,"}, "connect"),
        ({"image_codec": "png"}, "image_codec"),
        ({"jpeg_quality": 0}, "jpeg_quality"),
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
    ],
)
def test_a_bad_flag_is_named(flags, field):
    with pytest.raises(ValueError, match=f"^{field}:"):
        LefleetConfig(**flags)


def test_a_saved_policy_is_a_path_for_lerobot_eval(tmp_path):
    """With the overrides that lerobot-eval makes, which must find their steps."""
    LefleetPolicy(LefleetConfig(connect="tcp/a:1")).save_pretrained(tmp_path)
    config = PreTrainedConfig.from_pretrained(tmp_path, cli_overrides=["--service=fold"])
    config.pretrained_path = tmp_path
    policy = make_policy(config, env_cfg=PushtEnv())
    assert isinstance(policy, LefleetPolicy)
    assert (policy.config.connect, policy.config.service) == ("tcp/a:1", "fold")
    assert policy.config.output_features == {"action": PolicyFeature(FeatureType.ACTION, (2,))}
    before, _ = make_pre_post_processors(
        config,
        pretrained_path=str(tmp_path),
        preprocessor_overrides={
            "device_processor": {"device": "cpu"},
            "rename_observations_processor": {"rename_map": {"observation.a": "observation.b"}},
        },
    )
    assert before({"observation.a": 1, "task": ["x"]})["observation.b"] == 1
    assert not list(tmp_path.glob("*.safetensors"))
    assert LefleetPolicy.from_pretrained(tmp_path).config.connect == "tcp/a:1"
