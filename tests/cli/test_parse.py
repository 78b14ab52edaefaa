"""Command lines to typed commands."""

from pathlib import Path

import pytest

from lefleet.cli.commands import (
    ENDPOINT,
    ContractCommand,
    DoctorCommand,
    FleetCommand,
    PingCommand,
    ReplayCommand,
    RouterCommand,
    ServeCommand,
)
from lefleet.cli.parse import parse
from lefleet.errors import BadInput
from lefleet.records import (
    Corrections,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    TrainRequest,
)
from lefleet.server.manifest import LISTEN


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
    assert parse(["doctor", "--offline"]).command == DoctorCommand(offline=True)


def test_arguments_after_a_lone_double_dash_are_passed_to_lerobot_unchanged():
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


@pytest.mark.parametrize(
    ("line", "command", "overrides"),
    [
        ("serve", ServeCommand(), ()),
        ("serve demo --plan --json", ServeCommand(checkpoint="demo", plan=True, json=True), ()),
        ("serve --rtt-ms=5 --workdir=w", ServeCommand(rtt_ms=5.0, workdir=Path("w")), ()),
        ("serve --rtt_ms=5", ServeCommand(rtt_ms=5.0), ()),
        (
            "serve --manifest=a.yaml --model.device=cuda --max_sessions=3",
            ServeCommand(manifest=Path("a.yaml")),
            ("--model.device=cuda", "--max_sessions=3"),
        ),
        (
            "replay ring --manifest a.yaml --model.device=cpu",
            ReplayCommand(folder=Path("ring"), manifest=Path("a.yaml")),
            ("--model.device=cpu",),
        ),
        (
            "router --listen tls/0.0.0.0:7 tcp/[::]:8 --connect tls/b:7 --tls.ca c",
            RouterCommand(listen=("tls/0.0.0.0:7", "tcp/[::]:8"), connect=("tls/b:7",), tls_ca="c"),
            (),
        ),
        ("router --tls f --insecure", RouterCommand(tls="f", insecure=True), ()),
        ("serve --insecure", ServeCommand(insecure=True), ()),
        ("serve --insecure=true", ServeCommand(), ("--insecure=true",)),
        ("fleet --once", FleetCommand(once=True), ()),
        ("fleet fold --connect a b", FleetCommand(service="fold", connect=("a", "b")), ()),
        ("ping fold --count 3", PingCommand(service="fold", count=3), ()),
        ("contract user/name", ContractCommand(checkpoint="user/name"), ()),
        (
            "contract user/name --discover_packages a b",
            ContractCommand(checkpoint="user/name", discover_packages=("a", "b")),
            (),
        ),
    ],
)
def test_a_command_line_becomes_its_command(line, command, overrides):
    assert parse(line.split()) == (command, overrides)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("ping", "SERVICE"),
        ("replay", "DIR"),
        ("contract", "CHECKPOINT"),
        ("fleet --max_sessions=3", "--max_sessions"),
        ("serve --manifst a.yaml", "--manifst"),
        ("serve --colour", "--colour"),
    ],
)
def test_a_wrong_argument_of_a_server_command_exits_2_and_is_named(line, named, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(line.split())
    assert caught.value.code == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("serve demo --http_port 9100", "Write --http_port=9100"),
        ("serve --max_sessions 3 --plan", "Write --max_sessions=3"),
        ("replay ring --model.device cpu", "Write --model.device=cpu"),
        ("run -c a.yaml --budgets.cycles 5", "Write --budgets.cycles=5"),
    ],
)
def test_an_override_without_its_equals_sign_is_shown_as_it_should_be(line, hint):
    with pytest.raises(BadInput) as caught:
        parse(line.split())
    assert caught.value.remedy == hint


def test_servers_are_looked_for_where_they_listen_by_default():
    assert ENDPOINT == LISTEN
    assert FleetCommand().connect == (LISTEN,)
