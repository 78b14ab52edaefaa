"""What the columns of a checkpoint mean, and a manifest to serve it."""

import json

import pytest
import yaml

from lefleet.server.manifest import manifest_of
from tests.policy import tiny

PACKAGE = """
from dataclasses import dataclass
from lerobot.configs import PreTrainedConfig
from tests.policy.plugins.configuration_tiny import TinyFlowConfig

@PreTrainedConfig.register_subclass("newly_installed")
@dataclass
class NewConfig(TinyFlowConfig):
    pass
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contracts")
    tiny.act_images(folder / "known")
    tiny.act_images(folder / "unknown", contract=False)
    return folder


def test_each_part_is_shown_with_its_source_and_a_manifest_serves_it(lefleet, folder):
    code, out, _ = lefleet("contract", str(folder / "known"))
    assert code == 0
    shown, _, manifest = out.partition("\n\n")
    assert shown.startswith("act, digest ")
    assert "action_names: shoulder.pos, elbow.pos, gripper.pos\n    from lefleet.json\n" in shown
    assert "cameras.observation.images.top: 24 x 32 x 3\n    from lefleet.json\n" in shown
    assert yaml.safe_load(manifest) == {"model": {"repo_or_path": str(folder / "known")}}


def test_unknown_parts_are_placeholders(lefleet, folder):
    code, out, _ = lefleet("contract", str(folder / "unknown"), "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["sources"]["action_names"] == "unknown"
    assert answer["sources"]["cameras.observation.images.top"] == "config.json"
    contract = answer["manifest"]["contract"]
    assert len(contract["action_names"]) == len(tiny.JOINTS)
    assert list(contract["vectors"]) == [tiny.STATE]
    assert contract["fps"] is None
    manifest_of(answer["manifest"])


def test_a_person_reads_which_placeholders_to_replace(lefleet, folder):
    _, out, _ = lefleet("contract", str(folder / "unknown"))
    assert "action_names: unknown\n" in out
    assert "# Replace the placeholders" in out


def test_a_checkpoint_that_is_not_there_is_bad_input(lefleet):
    code, _, err = lefleet("contract", "missing")
    assert code == 2
    assert err.startswith("lefleet: checkpoint: missing does not exist.")


def test_a_policy_of_another_package_is_read_and_its_manifest_names_the_package(
    lefleet, tmp_path, monkeypatch
):
    """The package is new, so that no other test can have imported it."""
    config = tiny.unlisted(tmp_path / "policy") / "config.json"
    config.write_text(config.read_text().replace("tiny_unlisted", "newly_installed"))
    (tmp_path / "new_package").mkdir()
    (tmp_path / "new_package" / "__init__.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    assert lefleet("contract", "policy")[0] == 2
    code, out, err = lefleet("contract", "policy", "--json", "--discover-packages", "new_package")
    assert code == 0, err
    assert json.loads(out)["manifest"]["model"] == {
        "repo_or_path": str(tmp_path / "policy"),
        "discover_packages": ["new_package"],
    }


def test_a_package_that_is_not_there_is_bad_input(lefleet, folder):
    code, _, err = lefleet("contract", str(folder / "known"), "--discover-packages", "missing_one")
    assert code == 2
    assert "discover_packages: " in err
    assert "missing_one" in err
