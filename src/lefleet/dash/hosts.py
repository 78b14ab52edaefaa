"""Names and addresses that a dashboard answers to.

A page of any site can give its own name the address of this machine (DNS rebinding). The browser
then takes us for that site, but still sends its name as `Host`: so other names are refused.
"""

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from lefleet.errors import BadInput

type IpAddress = IPv4Address | IPv6Address

_HOST = re.compile(r"(\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(:(?P<port>[0-9]{1,5}))?")
_TLS = "https://"


@dataclass(frozen=True)
class AllowedHosts:
    """Without their ports: a tunnel may have another one."""

    names: frozenset[str]
    """Lower case; addresses in their short form."""
    over_tls: frozenset[str] = frozenset()
    """Of these names, those for which a proxy in front does TLS."""
    any_address: bool = False
    """Whether every address is allowed: one is not a name, which could be given another address."""

    def origin(self, host: str) -> str | None:
        """The origin of our pages for a browser that sent this `Host`; None where it is refused."""
        host = host.lower()
        found = _HOST.fullmatch(host)
        if found is None:
            return None
        name, address = _plain(found["v6"] or found["name"])
        if address is not None and address.is_unspecified:
            # Reaches this machine from any site, past what browsers forbid for 127.0.0.1.
            return None
        if name not in self.names and not (self.any_address and address is not None):
            return None
        return f"{'https' if name in self.over_tls else 'http'}://{host}"


def allowed_hosts(bound: IpAddress, host: str = "", named: Iterable[str] = ()) -> AllowedHosts:
    """For a server that a person bound to `host`, which has the address `bound`. `named` are more
    names that it is known by, each with https:// in front where a proxy does TLS."""
    names = {str(bound), host.lower(), "localhost", "127.0.0.1", "::1"}
    if not bound.is_loopback:
        own = socket.gethostname().lower()
        names |= {own, f"{own.partition('.')[0]}.local"}
    over_tls = set()
    for given in named:
        name = _named(given)
        names.add(name)
        if given.lower().startswith(_TLS):
            over_tls.add(name)
    return AllowedHosts(frozenset(names), frozenset(over_tls), any_address=bound.is_unspecified)


def port_of(origin: str) -> str:
    """The port in an origin, empty where it is the usual one."""
    found = _HOST.fullmatch(origin.partition("://")[2])
    return (found["port"] or "") if found else ""


def _named(given: str) -> str:
    """A name that a person gave, without scheme and port."""
    host = given.lower().removeprefix(_TLS).removeprefix("http://").removesuffix("/")
    found = _HOST.fullmatch(host)
    if found is None:
        raise BadInput(
            f"allow_host: {given!r} is neither a name nor an address.",
            "Write it without a path, such as gpu.lab or https://lefleet.lab",
        )
    return _plain(found["v6"] or found["name"])[0]


def _plain(host: str) -> tuple[str, IpAddress | None]:
    """A host in its short form, and its address where it is one."""
    try:
        address = ip_address(host)
    except ValueError:
        return host, None
    return str(address), address
