"""Arguments to requests."""

from pathlib import Path

import pytest

from lefleet.cli.commands import Doctor, parse
from lefleet.errors import BadInput
from lefleet.records import (
    Corrections,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    TrainRequest,
)


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("collect expert", ExpertDemos()),
        (
            "collect expert --tasks push reach --episodes-per-task 3 --noise 0.2 --seed 5",
            ExpertDemos(tasks=("push", "reach"), episodes_per_task=3, noise=0.2, seed=5),
        ),
        (
            "collect dataset --repo-id user/name --tasks push",
            ExistingDataset(repo_id="user/name", tasks=("push",)),
        ),
        (
            "collect corrections --checkpoint c --mode relabel",
            Corrections(checkpoint="c", mode="relabel"),
        ),
        (
            "train --dataset d --policy dim_model 8 --rename-map a b --steps 7",
            TrainRequest(dataset="d", policy={"dim_model": "8"}, rename_map={"a": "b"}, steps=7),
        ),
        (
            "eval --checkpoint c --videos-per-task 0",
            EvaluateRequest(checkpoint="c", videos_per_task=0),
        ),
        (
            "improve --checkpoint c --demos d --method harvest --mixing-ratio 0.25",
            ImproveRequest(checkpoint="c", demos="d", method="harvest", mixing_ratio=0.25),
        ),
    ],
)
def test_a_command_line_becomes_its_request(line, request_):
    command = parse([*line.split(), "--out", "runs/a"]).command
    assert command.request == request_
    assert command.out == Path("runs/a")
    assert (command.json, command.debug) == (False, False)


def test_output_flags_are_understood():
    command = parse(["collect", "expert", "--out", "a", "--json", "--debug"]).command
    assert (command.json, command.debug) == (True, True)


def test_doctor_has_no_request():
    assert parse(["doctor", "--offline"]).command == Doctor(offline=True)


def test_what_follows_a_lone_double_dash_goes_to_lerobot_as_it_is():
    ours = ["train", "--dataset", "d", "--out", "a"]
    command = parse([*ours, "--", "--steps=7", "--x", "--", "y"]).command
    assert command.request.extra_args == ("--steps=7", "--x", "--", "y")
    assert command.request.dataset == "d"


@pytest.mark.parametrize(
    "line", ["collect expert --out a", "eval --checkpoint c --out a", "doctor"]
)
def test_other_commands_refuse_further_flags(line):
    with pytest.raises(BadInput, match="only train takes further flags") as caught:
        parse([*line.split(), "--", "--x=1"])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("collect expert --out a --episodes-per-task many", "--episodes-per-task"),
        ("collect expert --out a --nois 0.1", "--nois"),
        ("collect expert", "--out"),
        ("train --out a", "--dataset"),
        ("eval --out a", "--checkpoint"),
        ("collect corrections --out a --checkpoint c --mode guess", "--mode"),
        ("collect", "expert"),
        ("", "collect"),
        ("dance", "dance"),
    ],
)
def test_a_wrong_argument_exits_2_and_is_named(line, named, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(line.split())
    shown = capsys.readouterr()
    assert caught.value.code == 2
    assert named in shown.err
    assert shown.out == ""
