"""lefleet inspect: by every kind of name, for people and for programs, and without torch."""

import json
import os
import subprocess
import sys

import pytest

from lefleet.stages.folder import read_record

CODE = """
import sys
from lefleet.cli import main
code = main()
assert not {"torch", "lerobot"} & set(sys.modules), "heavy"
sys.exit(code)
"""


def inspect(*arguments, cwd, **variables) -> subprocess.CompletedProcess:
    """The command in a process of its own, which fails where it imports torch or LeRobot."""
    argv = [sys.executable, "-c", CODE, "inspect", *map(str, arguments)]
    environment = {"HF_HOME": str(cwd / "hub"), **variables}
    return subprocess.run(
        argv, capture_output=True, text=True, cwd=cwd, env=os.environ | environment, check=False
    )


def test_a_stage_and_its_dataset_are_the_same(demos, tmp_path):
    stage = inspect(demos, "--json", cwd=tmp_path)
    folder = inspect(demos / "dataset", "--json", cwd=tmp_path)
    assert stage.stdout == folder.stdout
    found = json.loads(stage.stdout)
    assert (found["kind"], found["episodes"]) == ("dataset", 15)


def test_a_dataset_for_a_person(demos, tmp_path):
    text = inspect(demos, cwd=tmp_path).stdout
    assert text.startswith("dataset of metaworld_sawyer: 15 episodes")
    assert "hand_x.pos" in text
    assert "normalisation: IDENTITY" in text
    assert "refused" not in text


@pytest.mark.parametrize("place", ["stage", "weights"])
def test_a_checkpoint_for_a_person(weak, tmp_path, place):
    folder = weak if place == "stage" else read_record(weak).path
    text = inspect(folder, cwd=tmp_path).stdout
    assert text.startswith("checkpoint of act after 20 steps, loss ")
    assert "out: action 4: hand_x.vel, hand_y.vel, hand_z.vel, gripper_close.pos" in text


def test_a_dataset_in_the_cache_of_the_hub(demos, tmp_path):
    place = tmp_path / "hub" / "lerobot" / "user" / "name"
    place.parent.mkdir(parents=True)
    place.symlink_to(demos / "dataset")
    assert inspect("user/name", cwd=tmp_path).stdout.startswith("dataset of metaworld_sawyer")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("empty", "is neither a dataset nor a checkpoint"),
        ("nothing", "does not exist"),
        ("user/absent", "not in the cache of the hub"),
        ("half", "the stage in"),
    ],
)
def test_what_is_neither_is_bad_input(tmp_path, name, said):
    (tmp_path / "empty").mkdir()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "request.json").write_text("{}")
    done = inspect(name, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
