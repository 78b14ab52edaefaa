"""Ways in which LeRobot reads more out of a command line than it seems to say.

Each is shown to work with LeRobot's own parser first, so that denying it means something.
"""

import sys
from pathlib import Path

import pytest
from lerobot.configs import parser
from lerobot.configs.train import TrainPipelineConfig
from lerobot.scripts import lerobot_train  # noqa: F401 - registers policies and environments

from lefleet.constitution import Grants, Rules
from lefleet.errors import Denied
from tests.constitution.cases import TRAIN, rules

BASE = ("--dataset.repo_id=me/data", "--policy.type=act", "--policy.device=cpu", "--seed=1")
HARMLESS = (*BASE, "--steps=5")


@pytest.fixture
def own(tmp_path) -> Rules:
    """Every key is listed, so that only the form of the line can be the reason."""
    everything = {"lerobot.scripts.lerobot_train": {"arguments": {"*": {}}}}
    own = Grants(folders=(str(tmp_path / "own"),), datasets=("me/data",))
    return rules(own, commands=everything, environments=["*"], caps={"steps": 500})


@pytest.fixture
def files(tmp_path) -> Path:
    """Files that a hostile command line would like to be read."""
    (tmp_path / "own").mkdir()
    (tmp_path / "steps.yaml").write_text("777")
    (tmp_path / "env.yaml").write_text("{type: pusht, fps: 3}")
    (tmp_path / "train.yaml").write_text("steps: 777\n")
    return tmp_path


def understood(*arguments: str) -> TrainPipelineConfig:
    """What LeRobot's training makes of a command line."""
    found = []

    def keep(cfg: TrainPipelineConfig) -> None:
        found.append(cfg)

    before, sys.argv = sys.argv, ["lerobot-train", *arguments]
    try:
        parser.wrap()(keep)()
    finally:
        sys.argv = before
    return found[0]


def test_a_plain_line_is_understood_and_allowed(own):
    assert understood(*HARMLESS).steps == 5
    own.check_argv((*TRAIN, *HARMLESS))


@pytest.mark.parametrize(
    "value",
    [
        "include {files}/steps.yaml",
        "'include {files}/steps.yaml'",
        '"include {files}/steps.yaml"',
        '"\\x69nclude {files}/steps.yaml"',
        "--- include {files}/steps.yaml",
        "!!str include {files}/steps.yaml",
        "  include {files}/steps.yaml",
        "&a include {files}/steps.yaml",
    ],
)
def test_a_value_may_not_be_the_content_of_a_file(own, files, value):
    flag = f"--steps={value.format(files=files)}"
    assert understood(*BASE, flag).steps == 777
    with pytest.raises(Denied):
        own.check_argv((*TRAIN, *BASE, flag))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--env=include {files}/env.yaml",),
        ("--env={{type: pusht, fps: 3}}",),
        ("--env", "{{type: pusht, fps: 3}}"),
        ("--env={{'type': 'pusht', fps: 3}}",),
    ],
)
def test_a_part_of_the_config_may_not_be_given_as_a_whole(own, files, arguments):
    hostile = [one.format(files=files) for one in arguments]
    assert understood(*HARMLESS, *hostile).env.fps == 3
    with pytest.raises(Denied):
        own.check_argv((*TRAIN, *HARMLESS, *hostile))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--steps", "777"),
        ("--steps=5", "--steps=777"),
        ("--config_path={files}/train.yaml",),
        ("--config_path", "{files}/train.yaml"),
    ],
)
def test_there_is_one_way_to_write_a_flag(own, files, arguments):
    hostile = [one.format(files=files) for one in arguments]
    assert understood(*BASE, *hostile).steps == 777
    with pytest.raises(Denied):
        own.check_argv((*TRAIN, *BASE, *hostile))


def test_a_comment_may_not_hide_what_a_folder_is_called(own, files):
    """As a path this ends in the run's own folder; YAML ends it at the #."""
    hostile = f"--dataset.root={files}/evil #/../own"
    assert understood(*HARMLESS, hostile).dataset.root == f"{files}/evil"
    with pytest.raises(Denied, match="not a plain name"):
        own.check_argv((*TRAIN, *HARMLESS, hostile))


def test_no_folder_may_be_named_as_null(own, files, monkeypatch):
    """As a path it is in the run's own folder; YAML reads: none."""
    monkeypatch.chdir(files / "own")
    assert understood(*HARMLESS, "--dataset.root=null").dataset.root is None
    with pytest.raises(Denied, match="not a plain name"):
        own.check_argv((*TRAIN, *HARMLESS, "--dataset.root=null"))


@pytest.mark.parametrize("flag", ["--x.discover_packages_path", "--Xdiscover_packages_pathX"])
def test_a_package_may_not_be_imported_under_any_name(own, files, monkeypatch, flag):
    (files / "evil_plugin.py").write_text("__path__ = []\nimport sys\nsys.evil = True\n")
    monkeypatch.syspath_prepend(str(files))
    monkeypatch.delitem(sys.modules, "evil_plugin", raising=False)
    understood(*HARMLESS, f"{flag}=evil_plugin")
    assert sys.evil, "LeRobot imports whatever is named"
    del sys.evil
    for hostile in ((f"{flag}=evil_plugin",), (flag, "evil_plugin")):
        with pytest.raises(Denied):
            own.check_argv((*TRAIN, *HARMLESS, *hostile))
