"""Arguments of the commands about servers."""

from pathlib import Path

import pytest

from lefleet.cli.commands import parse
from lefleet.cli.serving import ENDPOINT, Fleet, Ping, Replay, Router, Serve, ShowContract
from lefleet.errors import BadInput
from lefleet.server.manifest import LISTEN


@pytest.mark.parametrize(
    ("line", "command", "overrides"),
    [
        ("serve", Serve(), ()),
        ("serve demo --plan --json", Serve(run="demo", plan=True, json=True), ()),
        ("serve --rtt-ms=5 --workdir=w", Serve(rtt_ms=5.0, workdir=Path("w")), ()),
        ("serve --rtt_ms=5", Serve(rtt_ms=5.0), ()),
        (
            "serve --manifest=a.yaml --model.device=cuda --max_sessions=3",
            Serve(manifest=Path("a.yaml")),
            ("--model.device=cuda", "--max_sessions=3"),
        ),
        (
            "replay ring --manifest a.yaml --model.device=cpu",
            Replay(folder=Path("ring"), manifest=Path("a.yaml")),
            ("--model.device=cpu",),
        ),
        (
            "router --listen tls/0.0.0.0:7 tcp/[::]:8 --connect tls/b:7 --tls.ca c",
            Router(listen=("tls/0.0.0.0:7", "tcp/[::]:8"), connect=("tls/b:7",), tls_ca="c"),
            (),
        ),
        ("fleet --once", Fleet(once=True), ()),
        ("fleet fold --connect a b", Fleet(service="fold", connect=("a", "b")), ()),
        ("ping fold --count 3", Ping(service="fold", count=3), ()),
        ("contract user/name", ShowContract(checkpoint="user/name"), ()),
        (
            "contract user/name --discover_packages a b",
            ShowContract(checkpoint="user/name", discover_packages=("a", "b")),
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
def test_a_wrong_argument_exits_2_and_is_named(line, named, capsys):
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
    assert Fleet().connect == (LISTEN,)
