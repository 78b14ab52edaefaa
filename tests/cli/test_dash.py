"""dash and its tokens, as commands; and where other commands point to a dashboard."""

import json
import subprocess
import sys
from contextlib import closing

import pytest

from lefleet.cli import dash as dash_module
from lefleet.cli.dash import DashCommand, DashTokenAddCommand
from lefleet.cli.options import WorkdirOptions
from lefleet.cli.parse import parse
from lefleet.dash import tokens
from lefleet.dash.address import announce, only_one
from lefleet.ledger import open_ledger
from lefleet.queries.words import DEFAULT_WORKDIR


def test_dash_is_a_command_and_so_is_what_stands_below_it():
    assert isinstance(parse(["dash"]).command, DashCommand)
    assert isinstance(parse(["dash", "--port=0"]).command, DashCommand)
    command = parse(["dash", "token", "add", "anna", "--may", "approve,label"]).command
    assert command == DashTokenAddCommand(name="anna", may="approve,label")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dash token", "dash token needs one of: add, list, revoke. See: lefleet dash token"),
        ("dash token ad", "dash token has no command ad. Did you mean add? See: "),
        ("dash tokens", "dash has no command tokens. Did you mean lefleet dash token list? See: "),
        ("dash token add", "dash token add needs NAME. See: "),
        ("dash --hots x", "dash has no flag --hots. Did you mean --host? See: "),
        ("dash token add anna --may fly", "may: fly is not a right. Use approve, label, run, "),
        ("dash token add anna --may lable", "may: lable is not a right. Did you mean label?"),
        ("dash token add timeout", "name: 'timeout' means something else in records. Use"),
        ("dash token revoke anna", "name: there is no live token 'anna'. See: lefleet dash token"),
        ("dash --port 70000", "port: 70000 is not between 0 and 65535."),
        ("dash --host no.such.host.invalid", "host: 'no.such.host.invalid' is neither an address"),
        ("dash --host 203.0.113.7", "host: 203.0.113.7 can be reached from elsewhere, and nobody"),
        ("dash --allow-host lab.x", "allow_host: lab.x can be reached from elsewhere, and nobody"),
        ("dash --allow-host a/b", "allow_host: 'a/b' is neither a name nor an address. Write it"),
        ("dash --timeout-s 0", "timeout_s: 0 is not between 0 and 3600."),
        ("dash --tls nowhere", "nowhere"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(lefleet, tmp_path, line, words):
    code, out, err = lefleet(*line.split())
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_without_the_extra_it_says_how_to_install_it(lefleet, monkeypatch):
    found = dash_module.find_spec
    monkeypatch.setattr(
        dash_module, "find_spec", lambda name: None if name == "nicegui" else found(name)
    )
    code, _, err = lefleet("dash")
    assert code == 2
    assert "nicegui not installed. Install the extra: pip install 'lefleet[dash]'" in err


def test_tokens_work_without_the_extra():
    program = (
        "import sys; sys.modules.update({name: None for name in ('nicegui', 'fastapi', 'uvicorn',"
        "'starlette')}); from lefleet.cli import main; sys.argv[1:] = ['dash', 'token', 'list'];"
        "raise SystemExit(main())"
    )
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)


def test_a_token_is_made_listed_and_revoked(lefleet, tmp_path):
    code, out, _ = lefleet("dash", "token", "add", "Anna B", "--may", "label, approve")
    assert code == 0
    assert "Token of Anna B, who may look, approve, label." in out
    text = next(line.strip() for line in out.splitlines() if "lefleet_" in line)
    person = tokens.TokenFile(tmp_path / "runs").find(text).person
    assert person.name == "Anna B (token)"
    code, out, _ = lefleet("dash", "token", "list")
    assert "Anna B" in out
    assert "look, approve, label" in out
    assert text not in out
    code, out, _ = lefleet("dash", "token", "revoke", "Anna B")
    assert out == "Revoked. Anna B is logged out within seconds.\n"
    assert "revoked" in lefleet("dash", "token", "list")[1]
    assert lefleet("dash", "token", "revoke", "Anna B")[0] == 2


def test_tokens_as_json(lefleet):
    made = json.loads(lefleet("dash", "token", "add", "anna", "--json")[1])
    assert (made["name"], made["may"]) == ("anna", [])
    (one,) = json.loads(lefleet("dash", "token", "list", "--json")[1])
    assert (one["name"], one["revoked_at"]) == ("anna", None)
    assert "sha256" not in one
    ended = json.loads(lefleet("dash", "token", "revoke", "anna", "--json")[1])
    assert ended["revoked_at"]


def test_without_tokens_the_list_says_how_to_make_one(lefleet):
    assert "lefleet dash token add NAME" in lefleet("dash", "token", "list")[1]


@pytest.mark.parametrize(
    "line",
    [
        "dash token list",
        "dash token revoke anna",
        "dash --host 203.0.113.7",
        "film demo:1",
        "knowledge show push",
        "knowledge show",
    ],
)
@pytest.mark.parametrize("workdir", ["runs", "elsewhere"])
def test_commands_to_copy_find_the_same_work_folder(lefleet, tmp_path, workdir, line):
    with closing(open_ledger(tmp_path / workdir)) as ledger:
        ledger.create_run("demo", {})
    pages = tmp_path / workdir / "knowledge" / "tasks"
    pages.mkdir(parents=True)
    (pages / "door-open.md").write_text("---\n---\n")
    _, out, err = lefleet(*line.split(), "--workdir", workdir)
    said = out + err
    assert "lefleet " in said
    assert (f"--workdir {tmp_path / workdir}" in said) == (workdir != "runs")


def test_commands_and_pages_mean_the_same_work_folder_where_none_is_named():
    assert WorkdirOptions().workdir == DEFAULT_WORKDIR


def test_help_names_no_python_values(lefleet):
    for command in ("report", "film"):
        assert "None" not in lefleet(command, "--help")[1]


def test_a_viewer_says_how_to_start_the_dashboard_or_where_it_is(lefleet, tmp_path, two_runs):
    code, out, _ = lefleet("resume", "a")
    assert code == 0
    assert "Dashboard:  lefleet dash\n" in out
    with only_one(tmp_path / "runs"):
        announce(tmp_path / "runs", "http://127.0.0.1:8765")
        _, out, _ = lefleet("resume", "a")
        assert "Dashboard:  http://127.0.0.1:8765/runs/a\n" in out


def test_looking_for_a_dashboard_imports_nothing_of_it():
    program = (
        "import sys, pathlib; from lefleet.dash.address import running;"
        "assert running(pathlib.Path('nowhere')) is None;"
        "print(sorted({'nicegui', 'fastapi', 'starlette', 'uvicorn'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert out == b"[]\n"
