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
            "collect expert --episodes push 3 pick-place 9",
            ExpertDemos(episodes={"push": 3, "pick-place": 9}),
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
    "line", ["collect expert --out a", "eval --checkpoint c --out a", "status"]
)
def test_other_commands_refuse_further_flags(line):
    with pytest.raises(BadInput, match="only train takes further flags") as caught:
        parse([*line.split(), "--", "--x=1"])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("evla", "there is no command evla. Did you mean eval? See: lefleet --help"),
        ("xyz", "there is no command xyz. See: lefleet --help"),
        ("--json status", "--json: a command must come first. See: lefleet --help"),
        ("collect", "collect needs one of: expert, dataset, corrections. See: "),
        ("collect experts", "collect has no command experts. Did you mean expert? See: "),
        ("certs sever a", "certs has no command sever. Did you mean server? See: "),
        ("certs xyz", "certs has no command xyz. There are init, server, robot, "),
        (
            "eval --out a --checkpoint c --episode-per-task 3",
            "eval has no flag --episode-per-task. Did you mean --episodes-per-task? See: ",
        ),
        ("eval --ot a --checkpoint c", "eval has no flag --ot. Did you mean --out? See: "),
        ("compare --fro a.csv", "compare has no flag --fro. Did you mean --from? See: "),
        ("fleet --tls.cat a", "fleet has no flag --tls.cat. Did you mean --tls.ca"),
        ("fleet --max_sessions=3", "fleet has no flag --max_sessions. See: lefleet fleet --help"),
        ("serve --manifst a.yaml", "serve has no flag --manifst. Did you mean --manifest? See: "),
        ("serve --colour", "serve has no flag --colour. See: lefleet serve --help"),
        ("resume demo --workdri=a", "resume has no flag --workdri. Did you mean --workdir? See: "),
        ("run -c a --workdri=b", "run has no flag --workdri. Did you mean --workdir? See: "),
        ("run -c a --form=demo", "run has no flag --form. Did you mean --from? See: "),
        ("demo --work_dir=a", "demo has no flag --work_dir. Did you mean --workdir? See: "),
        ("serve --manifst=a", "serve has no flag --manifst. Did you mean --manifest? See: "),
        ("status -x", "status has no flag -x. See: lefleet status --help"),
        (
            "train --dataset d --out a --memory-data",
            "--memory-data: that is the default. Leave it out. See: ",
        ),
        ("eval", "eval needs --out and --checkpoint. See: lefleet eval --help"),
        ("run", "run needs --config. See: lefleet run --help"),
        ("ping", "ping needs SERVICE. See: lefleet ping --help"),
        ("replay", "replay needs DIR. See: "),
        ("ping a b", "ping: unexpected argument b. See: "),
        ("stop a --json=3", "--json: it takes no value. See: "),
        ("collect expert --out", "--out: its value is missing. See: "),
        (
            "collect expert --out a --episodes_per_task many",
            "--episodes_per_task: many is not a whole number. See: lefleet collect expert --help",
        ),
        ("collect expert --out a --noise=x", "--noise: x is not a number. See: "),
        (
            "collect expert --out a --episodes push 3 reach",
            "--episodes: push 3 reach is not a list of pairs, as NAME NUMBER NAME NUMBER. See: ",
        ),
        ("compare a b --max-pairs 1.5", "--max-pairs: 1.5 is not a whole number. See: "),
        (
            "collect corrections --out a --checkpoint c --mode guess",
            "--mode: guess is not a choice. Use takeover or relabel. See: ",
        ),
        (
            "collect corrections --out a --checkpoint c --mode takover",
            "--mode: takover is not a choice. Did you mean takeover? See: ",
        ),
        (
            "train --dataset d --out a --policy dim_model",
            "--policy: dim_model is not a list of pairs, as NAME VALUE NAME VALUE. See: ",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_it_and_the_nearest_word(line, words, capsys):
    with pytest.raises(BadInput) as caught:
        parse(line.split())
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")


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
        ("serve --tls certs/server-a", ServeCommand(tls="certs/server-a"), ()),
        ("serve --tls=certs/server-a", ServeCommand(tls="certs/server-a"), ()),
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
