"""The YAML file: what it may say, where it is found, and how mistakes are named."""

import subprocess
import sys
import zipfile

import msgspec
import pytest
import yaml

from lefleet.constitution import find, packaged
from lefleet.constitution.schema import (
    CapRules,
    Constitution,
    digest_of,
    packaged_text,
    parse,
)
from lefleet.errors import BadInput
from tests.constitution.cases import constitution


def test_the_constitution_that_comes_with_lefleet_lets_nothing_real_move():
    default = packaged()
    assert not default.real_hardware
    assert not default.uploads
    assert default.own_config
    assert default.caps.steps
    assert "lefleet_sim" in default.robots.simulated


def test_the_shipped_file_names_every_field_so_that_a_copy_can_be_edited():
    assert set(yaml.safe_load(packaged_text())) == set(Constitution.__struct_fields__)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("real_hardware: true", "version is missing"),
        ("version: 2", "version: 2 is not known"),
        ("version: true", "version: True is not known"),
        ("version: '1'", "version: '1' is not known"),
        ("version: 1\nreal_hardwear: true", "no field real_hardwear. Did you mean real_hardware"),
        ("version: 1\nreal_hardware: perhaps", "real_hardware"),
        ("version: 1\ncaps: {stepps: 5}", "no field caps.stepps. Did you mean caps.steps"),
        ("version: 1\ncaps: {steps: 0}", "caps.steps"),
        ("version: 1\ncaps: {steps: many}", "caps.steps"),
        ("version: 1\nplugins: lefleet.sim", "plugins"),
        ("version: 1\nplugins: ['']", "plugins"),
        ("version: 1\ncommands: {a: {arguments: {x: {min: 2, max: 1}}}}", "min 2 is above max 1"),
        ("version: 1\ncommands: {a: {arguments: {x: {min: .nan}}}}", "is no range"),
        ("version: 1\ncommands: {a: {arguments: {x: {max: .inf}}}}", "is no range"),
        ("version: 1\ncommands: {a: {arguments: {x: {min: 1, one_of: [a]}}}}", "both given"),
        ("version: 1\ncommands: {a: {args: {}}}", "no field commands"),
        ("version: 1\nmotors: {limits: {a.pos: [2, 1]}}", "the smallest, 2, is above 1"),
        ("version: 1\nmotors: {limits: {a.pos: [1]}}", "motors.limits"),
        ("version: 1\nmotors: {limits: {a.pos: [.nan, 1]}}", "is no range"),
        ("version: 1\nmotors: {limits: {a.pos: [-.inf, 1]}}", "is no range"),
        ("version: 1\nmotors: {limits: {a.vel: [1, 2]}}", "must allow 0"),
        ("version: 1\nmotors: {robots: {x: {limits: {a.pos: [2, 1]}}}}", "motors.robots.x.limits"),
        ("version: 1\nmotors: {max_step: 0}", "motors.max_step"),
        ("version: 1\nmotors: {max_step: .inf}", "motors.max_step"),
        ("version: 1\ncaps: {wall_hours: .inf}", "caps.wall_hours"),
        ("version: 1\nmotors: {max_step: {a.pos: -1}}", "motors.max_step"),
        ("[1, 2]", "must hold fields"),
        ("version: [", "is not YAML"),
    ],
)
def test_a_mistake_names_its_field_and_file(tmp_path, text, said):
    (tmp_path / "constitution.yaml").write_text(text)
    with pytest.raises(BadInput) as raised:
        find(tmp_path)
    assert said in str(raised.value)
    assert "constitution.yaml" in str(raised.value)


def test_the_file_that_is_named_wins_then_that_of_the_work_folder_then_the_shipped_one(tmp_path):
    assert find(tmp_path) == ("", packaged())
    (tmp_path / "constitution.yaml").write_text("version: 1\nuploads: true\n")
    here = find(tmp_path)
    assert here.path == str(tmp_path / "constitution.yaml")
    assert here.constitution.uploads
    named = tmp_path / "other.yaml"
    named.write_text("version: 1\nreal_hardware: true\n")
    hardware = msgspec.structs.replace(packaged(), real_hardware=True)
    assert find(tmp_path, str(named)) == (str(named), hardware)


def test_a_file_that_is_named_and_missing_is_an_error_rather_than_the_default(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        find(tmp_path, str(tmp_path / "none.yaml"))


def test_a_link_to_nothing_in_the_work_folder_is_an_error_rather_than_the_default(tmp_path):
    (tmp_path / "constitution.yaml").symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(BadInput, match="cannot be read"):
        find(tmp_path)


def test_a_field_that_a_file_leaves_out_is_as_it_comes_with_lefleet(tmp_path):
    (tmp_path / "constitution.yaml").write_text("version: 1\ncaps: {steps: 5}\nplugins: []\n")
    found = find(tmp_path).constitution
    assert found.caps == CapRules(steps=5), "a field that is written is taken as a whole"
    assert found.plugins == ()
    assert found == msgspec.structs.replace(packaged(), caps=found.caps, plugins=())


def test_the_digest_is_of_the_content_and_not_of_its_order_or_comments():
    one = parse(yaml.safe_load("version: 1\nplugins: [a]\nuploads: false"), "")
    other = parse(yaml.safe_load("# why\nuploads: false\nplugins: [a]\nversion: 1"), "")
    assert digest_of(one) == digest_of(other)
    assert digest_of(one) != digest_of(constitution())
    assert len(digest_of(one)) == 64


@pytest.mark.slow
def test_the_wheel_has_the_shipped_file(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert zipfile.ZipFile(wheel).read("lefleet/constitution/default.yaml").decode() == (
        packaged_text()
    )
