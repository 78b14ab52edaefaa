"""dash: pages in a browser, and the tokens of people who open them from elsewhere."""

import socket
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text
from tyro.conf import Positional, UseAppendAction, arg

from lefleet.actions.people import RIGHTS, Right, user_name
from lefleet.cli.commands import ConnectOptions
from lefleet.cli.options import OutputOptions, WorkdirOptions
from lefleet.cli.output import log_to_stderr, print_json, print_json_line, printable
from lefleet.cli.overview import did_you_mean
from lefleet.cli.parse import absolute
from lefleet.errors import BadInput
from lefleet.ledger.address import has_ledger
from lefleet.queries.words import workdir_flag

if TYPE_CHECKING:
    from lefleet.dash.server import Listening

_PACKAGES = ("fastapi", "nicegui", "uvicorn")


@dataclass(frozen=True, kw_only=True)
class DashCommand(ConnectOptions, WorkdirOptions):
    """Look at runs, robots and episodes in a browser, and answer what runs ask. Tokens let people
    on other machines in: lefleet dash token --help. Ctrl-C stops it; runs continue."""

    host: str = "127.0.0.1"
    """Address or name of this machine to listen on; 0.0.0.0 for all of its addresses. Anything but
    loopback needs tokens."""
    port: int = 8765
    """Port to listen on. 0: any free one."""
    datasets: tuple[Path, ...] = (Path("datasets"),)
    """Folders with recorded datasets in them, or datasets."""
    configs: Path = Path("configs")
    """Folder with configs that runs can be started from, beside those of earlier runs."""
    allow_host: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="NAME")] = ()
    """Another name that it is reached by, for instance that of a proxy in front of it; with
    https://NAME the proxy does TLS. Everybody then needs a token. May be repeated."""


@dataclass(frozen=True, kw_only=True)
class DashTokenOptions(WorkdirOptions):
    """All commands about tokens have these."""


@dataclass(frozen=True, kw_only=True)
class DashTokenAddCommand(DashTokenOptions):
    """Make a token for a person, and print it once. Whoever has it can look at everything."""

    name: Annotated[str, Positional, arg(metavar="NAME")]
    """Name of the person, as records will show it: NAME (token)."""
    may: str = ""
    """What else they may do: approve (answer what runs ask), label (say how episodes ended), run
    (start, stop and resume runs), film (ask for films), edit (knowledge pages); with commas in
    between."""


@dataclass(frozen=True, kw_only=True)
class DashTokenListCommand(DashTokenOptions):
    """List tokens: whose they are, and what they allow."""


@dataclass(frozen=True, kw_only=True)
class DashTokenRevokeCommand(DashTokenOptions):
    """End a token. Whoever is logged in with it is logged out within seconds."""

    name: Annotated[str, Positional, arg(metavar="NAME")]
    """Name of the person, see lefleet dash token list."""


DASH_COMMANDS: dict[str, type[OutputOptions]] = {
    "dash": DashCommand,
    "dash token add": DashTokenAddCommand,
    "dash token list": DashTokenListCommand,
    "dash token revoke": DashTokenRevokeCommand,
}


def dash(command: DashCommand) -> int:
    """Serve pages and API until a signal."""
    from lefleet.cli.network import connect_settings, may_read_robots, network_errors
    from lefleet.dash.context import Context
    from lefleet.ledger import read_ledger
    from lefleet_client.transport import ZenohTransport

    _require_packages()
    workdir = absolute(command.workdir, "workdir")
    datasets = tuple(absolute(one, "datasets") for one in command.datasets)
    with network_errors():
        fleet = connect_settings(command)
        reads_robots = may_read_robots(command)
    read_ledger(workdir).close()  # raises where it cannot be read
    log_to_stderr()
    context = Context(
        workdir,
        lambda: ZenohTransport.open(fleet),
        datasets=datasets,
        configs=absolute(command.configs, "configs"),
        reads_robots=reads_robots,
    )

    from lefleet.dash.server import serve

    def ready(at: "Listening") -> None:
        if command.json:
            print_json_line({"event": "serving", **asdict(at)})
        else:
            print("\n".join(_words(at, workdir)), flush=True)

    serve(context, command.host, command.port, command.allow_host, ready)
    return 0


def _require_packages() -> None:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise BadInput(
            f"dash: {', '.join(missing)} not installed.",
            "Install the extra: pip install 'lefleet[dash]'",
        )


def _words(at: "Listening", workdir: Path) -> list[str]:
    """Where it is, and how to reach it from a phone or another machine."""
    flag, port = workdir_flag(workdir), at.url.rpartition(":")[2]
    lines = [f"Dashboard of {printable(str(workdir))}: {at.url}"]
    if not has_ledger(workdir):
        lines.append(
            f"There are no runs in it yet. Is this the right folder? Begin one: lefleet demo{flag}"
        )
    if at.elsewhere:
        lines += [
            f"From other machines: {at.elsewhere}, with a token: lefleet dash token list{flag}",
            "It is not encrypted: whoever can listen on this network can read tokens and pages. "
            "How to change that: docs/dashboard.md",
        ]
    elif at.needs_token:
        lines.append(f"Everybody needs a token: lefleet dash token list{flag}")
    else:
        if not at.knows_users:
            lines.append("Every user of this machine can open it: the kernel does not tell them.")
        tunnel = f"ssh -L {port}:127.0.0.1:{port} {user_name()}@{socket.gethostname()}"
        lines += [
            f"From another machine, as yourself: {tunnel}",
            f"For a phone or a colleague: lefleet dash token add NAME --may approve,label{flag}",
            f"then, instead of this one: lefleet dash --host 0.0.0.0{flag}",
        ]
    return [*lines, "Stop it with Ctrl-C; runs continue."]


def dash_token(command: DashTokenOptions) -> int:
    from lefleet.dash import tokens

    workdir = absolute(command.workdir, "workdir")
    match command:
        case DashTokenAddCommand():
            may = _rights(command.may)
            text = tokens.add(workdir, command.name, may)
            _show_added(command, may, text)
        case DashTokenRevokeCommand():
            ended = tokens.revoke(workdir, command.name)
            if command.json:
                print_json({"name": ended.name, "revoked_at": ended.revoked_at})
            else:
                print(f"Revoked. {ended.name} is logged out within seconds.")
        case DashTokenListCommand():
            _list(command, workdir)
        case _:
            raise AssertionError(f"no function runs {command}")
    return 0


def _rights(given: str) -> tuple[Right, ...]:
    words = [word.strip() for word in given.split(",") if word.strip()]
    for word in words:
        if word not in RIGHTS:
            meant = did_you_mean(word, list(RIGHTS)) or f"Use {', '.join(RIGHTS)}."
            raise BadInput(f"may: {printable(word)} is not a right.", meant.strip())
    return tuple(right for right in RIGHTS if right in words)


def _show_added(command: DashTokenAddCommand, may: tuple[Right, ...], text: str) -> None:
    if command.json:
        print_json({"name": command.name, "may": may, "token": text})
        return
    print(f"Token of {command.name}, who may {_listed(may)}. It is shown only now:")
    print(f"\n  {text}\n")
    flag = workdir_flag(absolute(command.workdir, "workdir"))
    print("Send it to them over a channel that you trust: the dashboard asks them for it.")
    print(f"Let other machines reach the dashboard: lefleet dash --host 0.0.0.0{flag}")


def _listed(may: tuple[Right, ...]) -> str:
    return ", ".join(("look", *may))


def _list(command: DashTokenListCommand, workdir: Path) -> None:
    from lefleet.dash import tokens

    found = tokens.listed(workdir)
    if command.json:
        fields = ("name", "may", "created_at", "revoked_at")
        print_json([{name: getattr(one, name) for name in fields} for one in found])
        return
    from lefleet.cli.display import console, table

    if not found:
        flag = workdir_flag(workdir)
        print(f"No tokens yet. Make one: lefleet dash token add NAME --may approve,label{flag}")
        return
    shown = table("name", "may", "created (UTC)", "state")
    for one in found:
        ended = f"revoked {one.revoked_at:%Y-%m-%d}" if one.revoked_at else ""
        created = f"{one.created_at:%Y-%m-%d %H:%M}"
        shown.add_row(one.name, _listed(one.may), created, Text(ended or "valid", _dim(ended)))
    console().print(shown)


def _dim(ended: str) -> str:
    return "dim" if ended else ""
