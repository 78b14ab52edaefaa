"""Who may do what on the network: names that may connect, as Zenoh's access control.

A router and a server that listens apply the same rules to every node that is linked to them, by
the common name of its certificate. What no rule allows is denied. "ingress" is what comes from that
node, "egress" what is sent to it. A rule allows a message only if its keys include the whole key
expression of the message, so a question or subscription that is wider than the rule is denied.

Some rules look too wide and are harmless: servers are sent the questions that robots ask of all
servers, robots those that operators ask of all robots, and robots learn which keys servers and
operators subscribe to.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from lefleet.errors import BadInput
from lefleet.records import decode
from lefleet.records.border import Strict
from lefleet_client.wire import BadKey, matching_robots, matching_servers, slug

AclFlow = Literal["ingress", "egress"]
AccessRules = Iterator[tuple[AclFlow, str, tuple[str, ...]]]


class AccessList(Strict, frozen=True, kw_only=True):
    """Names that may connect; `lefleet certs` writes it."""

    version: Literal[1] = 1
    servers: tuple[str, ...] = ()
    robots: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()


def read_access(path: str | Path) -> AccessList:
    """The list in a file; every name is one segment of a key, and has one role."""
    try:
        access: AccessList = decode(Path(path).read_bytes(), AccessList, str(path))
    except OSError as error:
        raise BadInput(f"tls.access: {path} cannot be read: {error.strerror}.") from error
    names = [*access.servers, *access.robots, *access.operators]
    for name in names:
        _require_name(name, path)
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise BadInput(
            f"{path}: {twice} is listed twice.", "Write the list again: lefleet certs list"
        )
    return access


def access_control(access: AccessList) -> dict[str, Any]:
    """Zenoh's setting `access_control` for these names."""
    roles: list[tuple[str, tuple[str, ...], Callable[[str], AccessRules]]] = [
        ("server", access.servers, _rules_of_server),
        ("robot", access.robots, _rules_of_robot),
        ("operator", access.operators, _rules_of_operator),
    ]
    rules, subjects, policies = [], [], []
    for role, names, rules_of in roles:
        for name in names:
            holder = f"{role}-{name}"
            subjects.append({"id": holder, "cert_common_names": [holder]})
            ids = []
            for (flow, message), keys in _merged(rules_of(name)).items():
                ids.append(f"{holder} {flow} {message}")
                rules.append(
                    {
                        "id": ids[-1],
                        "permission": "allow",
                        "flows": [flow],
                        "messages": [message],
                        "key_exprs": keys,
                    }
                )
            policies.append({"rules": ids, "subjects": [holder]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


def _merged(rules: AccessRules) -> dict[tuple[AclFlow, str], tuple[str, ...]]:
    """One rule for each flow and message, with all its keys."""
    merged: dict[tuple[AclFlow, str], tuple[str, ...]] = {}
    for flow, message, keys in rules:
        merged[flow, message] = (*merged.get((flow, message), ()), *keys)
    return merged


def _rules_of_robot(name: str) -> AccessRules:
    """A client that reports its own state, and reads nobody's."""
    yield from _rules_of_client(name)
    own, every = matching_robots(name), matching_robots()
    yield "ingress", "put", (own.status,)
    yield "egress", "declare_subscriber", (every.status,)
    yield "ingress", "declare_queryable", (own.status,)
    yield "egress", "query", (every.status,)
    yield "ingress", "reply", (own.status,)
    yield "ingress", "liveliness_token", (own.alive,)


def _rules_of_operator(name: str) -> AccessRules:
    """Reads the statuses of servers and robots; to ping is to be a client under the own name."""
    yield from _rules_of_client(name)
    robots = matching_robots()
    yield "ingress", "query", (robots.status,)
    yield "egress", "reply", (robots.status,)
    yield "egress", "declare_queryable", (robots.status,)
    yield "ingress", "declare_subscriber", (robots.status,)
    yield "egress", "put", (robots.status,)
    yield "ingress", "liveliness_query", (robots.alive,)
    yield "ingress", "declare_liveliness_subscriber", (robots.alive,)
    yield "egress", "liveliness_token", (robots.alive,)


def _rules_of_client(name: str) -> AccessRules:
    """A client asks, sends and is present under its own name alone, at any server."""
    servers = matching_servers()
    own, every = servers.client(name), servers.any_client
    yield "ingress", "query", (servers.status, own.session, own.reset)
    yield "egress", "reply", (servers.status, own.session, own.reset)
    yield "ingress", "put", (own.obs,)
    yield "ingress", "declare_subscriber", (own.action,)
    yield "egress", "put", (own.action,)
    yield "ingress", "liveliness_token", (own.alive,)
    yield "ingress", "liveliness_query", (servers.alive,)
    yield "ingress", "declare_liveliness_subscriber", (servers.alive,)
    yield "egress", "liveliness_token", (servers.alive,)
    yield "egress", "declare_subscriber", (every.obs,)
    yield "egress", "declare_queryable", (servers.status, every.session, every.reset)


def _rules_of_server(name: str) -> AccessRules:
    """A server answers, sends and is present under its own name alone, to any client."""
    every_server = matching_servers()
    own = matching_servers(server=name)
    clients = own.any_client
    answered = (own.status, clients.session, clients.reset)
    yield "ingress", "declare_queryable", answered
    yield "egress", "query", (every_server.status, clients.session, clients.reset)
    yield "ingress", "reply", answered
    yield "ingress", "declare_subscriber", (clients.obs,)
    yield "egress", "put", (clients.obs,)
    yield "ingress", "put", (clients.action,)
    yield "egress", "declare_subscriber", (clients.action,)
    yield "ingress", "liveliness_token", (own.alive,)
    yield "ingress", "liveliness_query", (own.alive, clients.alive)
    yield "ingress", "declare_liveliness_subscriber", (own.alive, clients.alive)
    yield "egress", "liveliness_token", (own.alive, clients.alive)
    # Whether another server runs under this name.
    yield "ingress", "query", (own.status,)
    yield "egress", "reply", (own.status,)
    yield "egress", "declare_queryable", (own.status,)


def _require_name(name: str, path: str | Path) -> None:
    try:
        is_name = slug(name, "name") == name
    except BadKey:
        is_name = False
    if not is_name:
        raise BadInput(
            f"{path}: {name[:80]!r} cannot be a name.", "Write the list again: lefleet certs list"
        )
