"""What the columns of a checkpoint mean, and a manifest to serve it."""

import json

import pytest
import yaml

from lefleet.server.manifest import manifest_of
from tests.cli.child import Child
from tests.policy import tiny
from tests.server.serving import PLUGINS


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


def test_a_policy_of_another_package_is_read_and_its_manifest_names_the_package(tmp_path):
    """In a process of its own: here the package may have been imported already."""
    tiny.stranger(tmp_path / "policy")
    arguments = ("policy", "--json", "--discover-packages", PLUGINS)
    with Child("contract", *arguments, folder=tmp_path) as child:
        child.wait_for(lambda one: one.out)
        assert child.end() == 0
    assert json.loads("\n".join(child.out))["manifest"]["model"] == {
        "repo_or_path": str(tmp_path / "policy"),
        "discover_packages": [PLUGINS],
    }


def test_a_package_that_is_not_there_is_bad_input(lefleet, folder):
    code, _, err = lefleet("contract", str(folder / "known"), "--discover-packages", "missing_one")
    assert code == 2
    assert "discover_packages: " in err
    assert "missing_one" in err
