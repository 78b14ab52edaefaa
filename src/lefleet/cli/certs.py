"""certs: certificates and access lists for a fleet."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from rich.text import Text
from tyro.conf import Positional, UseAppendAction, arg

from lefleet.cli.options import OutputOptions
from lefleet.cli.output import print_json

if TYPE_CHECKING:
    from lefleet.certs.authority import Authority
    from lefleet.certs.registry import IssuedCertificate

_COLOURS = {"valid": "", "expiring": "yellow", "expired": "red", "revoked": "dim"}


@dataclass(frozen=True, kw_only=True)
class CertsOptions(OutputOptions):
    """All of them have these."""

    dir: Path = Path("certs")
    """Folder of the authority and of the certificates."""


@dataclass(frozen=True, kw_only=True)
class CertsInitCommand(CertsOptions):
    """Create an authority: the key that signs certificates."""

    days: int = 3650
    """How long it is valid."""


@dataclass(frozen=True, kw_only=True)
class CertsIssueOptions(CertsOptions):
    """A name and a new certificate for it."""

    name: Annotated[str, Positional, arg(metavar="NAME")]
    """Name without robot-, server- or operator-; unique over all roles."""
    days: int = 365
    """How long the certificate is valid."""


@dataclass(frozen=True, kw_only=True)
class CertsServerCommand(CertsIssueOptions):
    """Issue a certificate for a server or a router. Its server_name is NAME."""

    host: Annotated[tuple[str, ...], UseAppendAction] = ()
    """Name or address that others connect to; may be repeated. localhost for a server that only
    connects to a router."""


@dataclass(frozen=True, kw_only=True)
class CertsRobotCommand(CertsIssueOptions):
    """Issue a certificate for a robot. Its client_id is NAME."""


@dataclass(frozen=True, kw_only=True)
class CertsOperatorCommand(CertsIssueOptions):
    """Issue a certificate for a person, who may use fleet and ping."""


@dataclass(frozen=True, kw_only=True)
class CertsRenewCommand(CertsIssueOptions):
    """Issue a new key and certificate for a name. The old certificate stays valid until it
    expires."""

    host: Annotated[tuple[str, ...], UseAppendAction] = ()
    """Of a server: other names and addresses than before; may be repeated."""


@dataclass(frozen=True, kw_only=True)
class CertsRevokeCommand(CertsOptions):
    """Take a name off the access lists: routers and servers forward nothing for its certificate."""

    name: Annotated[str, Positional, arg(metavar="NAME")]
    """Name, see lefleet certs list."""


@dataclass(frozen=True, kw_only=True)
class CertsListCommand(CertsOptions):
    """List names, and when their certificates expire."""

    zenoh: bool = False
    """Print the access list as Zenoh's access_control, for zenohd."""


CERTS_COMMANDS: dict[str, type[CertsOptions]] = {
    "certs init": CertsInitCommand,
    "certs server": CertsServerCommand,
    "certs robot": CertsRobotCommand,
    "certs operator": CertsOperatorCommand,
    "certs renew": CertsRenewCommand,
    "certs revoke": CertsRevokeCommand,
    "certs list": CertsListCommand,
}


def run_certs(command: CertsOptions) -> int:
    """Each command prints what it made and what is left to do."""
    from lefleet.certs.authority import Authority
    from lefleet.cli.parse import absolute

    folder, now = absolute(command.dir, "dir"), datetime.now(UTC)
    if isinstance(command, CertsInitCommand):
        _init(command, Authority.create(folder, command.days, now))
        return 0
    with Authority(folder, now) as authority:
        match command:
            case CertsServerCommand():
                made = authority.issue("server", command.name, command.host, command.days)
            case CertsRobotCommand():
                made = authority.issue("robot", command.name, (), command.days)
            case CertsOperatorCommand():
                made = authority.issue("operator", command.name, (), command.days)
            case CertsRenewCommand():
                made = authority.renew(command.name, command.host, command.days)
            case CertsRevokeCommand():
                made = authority.revoke(command.name)
            case CertsListCommand():
                return _list(command, authority, now)
            case _:
                raise AssertionError(f"no function runs {command}")
    _report(command, authority, made)
    return 0


def _init(command: CertsInitCommand, expires: datetime) -> None:
    if command.json:
        print_json({"folder": command.dir, "expires": expires})
        return
    print(f"Authority in {command.dir / 'authority'}, valid until {expires:%Y-%m-%d}.")
    print("Keep ca.key on this machine and back it up: whoever has it can make certificates.")


def _report(command: CertsOptions, authority: "Authority", made: "IssuedCertificate") -> None:
    """What was issued or revoked, and where folders and access lists must be copied to."""
    names, elsewhere = authority.servers()
    here = [str(command.dir / name) for name in names]
    if command.json:
        lists = {"access_lists": here, "copy_access_list_to": elsewhere}
        print_json({**_fields(made), "notes": authority.notes, **lists})
        return
    for note in authority.notes:
        print(note)
    who, folder = f"{made.role} {made.name}", command.dir / made.common_name
    if isinstance(command, CertsRevokeCommand):
        print(f"Revoked {who}.")
        if made.role == "server":
            print(
                f"Robots have no access list: until {made.expires:%Y-%m-%d} they still trust its "
                f"key at {', '.join(made.hosts)}. If the key was stolen, see docs/security.md."
            )
    else:
        print(f"Issued {who}, valid until {made.expires:%Y-%m-%d}: copy {folder} to its machine.")
    if isinstance(command, CertsRenewCommand):
        print("The old certificate stays valid until it expires. If its key was stolen, revoke it.")
        return
    if here:
        print(f"Access list: {', '.join(here)}. Programs that use these folders read it again.")
    where = f" ({', '.join(elsewhere)})" if elsewhere else ""
    if here or elsewhere:
        print(f"Routers and servers on other machines{where}: copy {command.dir / 'access.json'}.")


def _list(command: CertsListCommand, authority: "Authority", now: datetime) -> int:
    holders = authority.registry.holders()
    if command.zenoh:
        from lefleet.certs.access import access_control

        print_json(access_control(authority.registry.access()))
        return 0
    if command.json:
        rows = [_fields(one) | {"state": _state(one, now)} for one in holders]
        own = {"expires": authority.expires, "notes": authority.notes}
        print_json({"authority": own, "certificates": rows})
        return 0
    from lefleet.cli.display import console, table

    for note in authority.notes:
        print(note)
    out, shown = console(), table("role", "name", "hosts", "expires", "state")
    for one in holders:
        hosts, expires = ", ".join(one.hosts), f"{one.expires:%Y-%m-%d}"
        shown.add_row(one.role, one.name, hosts, expires, _state_text(one, now))
    if holders:
        out.print(shown)
    else:
        out.print("No certificates yet. Issue them with: lefleet certs server, robot, operator")
    state = _remaining(authority.expires, now)
    ends = f"The authority is {state}: its certificate ends on {authority.expires:%Y-%m-%d}."
    out.print(Text(ends, _COLOURS[state]))
    return 0


def _fields(one: "IssuedCertificate") -> dict[str, Any]:
    return {**msgspec.to_builtins(one), "folder": one.common_name}


def _state(one: "IssuedCertificate", now: datetime) -> str:
    return "revoked" if one.revoked is not None else _remaining(one.expires, now)


def _remaining(expires: datetime, now: datetime) -> str:
    from lefleet_client.transport.identity import WARN_BEFORE

    if expires <= now:
        return "expired"
    return "expiring" if expires - now <= WARN_BEFORE else "valid"


def _state_text(one: "IssuedCertificate", now: datetime) -> Text:
    state = _state(one, now)
    words = {
        "revoked": f"revoked {one.revoked:%Y-%m-%d}" if one.revoked else "",
        "expired": "expired, renew it",
        "expiring": f"expires in {(one.expires - now).days} days, renew it",
    }
    return Text(words.get(state, state), _COLOURS[state])
