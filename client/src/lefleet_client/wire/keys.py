"""Where messages go: the key tree under `@lefleet`, and names made fit for it.

`@lefleet` is a verbatim chunk: the `**` of another program does not match it. That hides the tree,
it does not protect it.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from lefleet_client.wire.errors import BadKey

ROOT = "@lefleet"
ANY = "*"
MAX_SEGMENT = 255

_FIXED = {"s", "c", "status", "session", "alive", "obs", "action", "reset"}
_FOLDED = re.compile(r"[^A-Za-z0-9_.-]+")
_OF_SERVER = {"status", "alive"}
_OF_CLIENT = {"session", "obs", "action", "reset", "alive"}
_OF_ROBOT = {"status", "alive"}


def slug(name: str, segment: str) -> str:
    """`name` as one segment of a key; `segment` says which one, for the error.

    Different names may give one slug, so sessions also compare the full names.

    >>> slug("lerobot/pi0 base", "model")
    'lerobot-pi0-base'
    """
    folded = _FOLDED.sub("-", name)
    if not folded.strip("-"):
        raise BadKey(f"{segment}: {name[:40]!r} has no letter or digit of A-Za-z0-9")
    if folded in _FIXED:
        raise BadKey(f"{segment}: {name!r} is a reserved word; choose another name")
    if len(folded) > MAX_SEGMENT:
        raise BadKey(f"{segment}: {name[:40]!r}... is longer than {MAX_SEGMENT} characters")
    return folded


@dataclass(frozen=True)
class ClientKeys:
    """The keys between one server and one client; `client` may be ANY, for a server."""

    base: str
    client: str

    def _key(self, word: str) -> str:
        return f"{self.base}/c/{self.client}/{word}"

    @property
    def session(self) -> str:
        return self._key("session")

    @property
    def obs(self) -> str:
        return self._key("obs")

    @property
    def action(self) -> str:
        return self._key("action")

    @property
    def reset(self) -> str:
        return self._key("reset")

    @property
    def alive(self) -> str:
        return self._key("alive")


@dataclass(frozen=True)
class ServerKeys:
    """The keys of one server; `server` may be ANY, for discovery."""

    base: str
    server: str

    def _key(self, word: str) -> str:
        return f"{self.base}/s/{self.server}/{word}"

    @property
    def status(self) -> str:
        return self._key("status")

    @property
    def alive(self) -> str:
        return self._key("alive")

    def client(self, name: str) -> ClientKeys:
        return ClientKeys(f"{self.base}/s/{self.server}", slug(name, "client"))

    @property
    def any_client(self) -> ClientKeys:
        """One level deep: every client's keys, and nothing below them."""
        return ClientKeys(f"{self.base}/s/{self.server}", ANY)


@dataclass(frozen=True)
class ServiceKeys:
    """A model at a revision under a service name; its replicas are its servers.

    >>> ServiceKeys("lerobot/pi0", "main", "fold").server("a").client("arm 1").obs
    '@lefleet/lerobot-pi0/main/fold/s/a/c/arm-1/obs'
    """

    model: str
    revision: str
    service: str

    @property
    def base(self) -> str:
        model, revision = slug(self.model, "model"), slug(self.revision, "revision")
        return f"{ROOT}/{model}/{revision}/{slug(self.service, 'service')}"

    def server(self, name: str) -> ServerKeys:
        return ServerKeys(self.base, slug(name, "server"))


def matching_servers(
    model: str = "", revision: str = "", service: str = "", server: str = ""
) -> ServerKeys:
    """The keys of every server under these names, for discovery; an empty name means any.

    >>> matching_servers(service="fold").status
    '@lefleet/*/*/fold/s/*/status'
    """
    names = {"model": model, "revision": revision, "service": service, "server": server}
    *segments, last = [slug(name, segment) if name else ANY for segment, name in names.items()]
    return ServerKeys("/".join([ROOT, *segments]), last)


@dataclass(frozen=True)
class RobotKeys:
    """What a robot reports of itself, whichever server it uses; `robot` may be ANY, for readers.

    They have four segments, and keys of servers seven or nine: no name of a model leads here.
    """

    robot: str

    def _key(self, word: str) -> str:
        return f"{ROOT}/robots/{self.robot}/{word}"

    @property
    def status(self) -> str:
        return self._key("status")

    @property
    def alive(self) -> str:
        return self._key("alive")


def matching_robots(client: str = "") -> RobotKeys:
    """The keys of the robot of this name, or of every robot.

    >>> matching_robots("arm 7").status
    '@lefleet/robots/arm-7/status'
    """
    return RobotKeys(slug(client, "client") if client else ANY)


@dataclass(frozen=True)
class ParsedKey:
    """A key taken apart; `client` is empty for a key of the server's own."""

    model: str
    revision: str
    service: str
    server: str
    client: str
    word: str


def parse_key(key: str) -> ParsedKey:
    """Take a concrete key of the tree apart."""
    parts = key.split("/")
    if len(parts) in (7, 9) and parts[0] == ROOT and parts[4] == "s":
        model, revision, service, server = parts[1], parts[2], parts[3], parts[5]
        own = len(parts) == 7
        client = "" if own else parts[7]
        word_is_known = parts[-1] in (_OF_SERVER if own else _OF_CLIENT)
        named = [model, revision, service, server] + ([] if own else [client])
        if word_is_known and (own or parts[6] == "c") and all(map(_is_slug, named)):
            return ParsedKey(model, revision, service, server, client, parts[-1])
    raise BadKey(f"{key[:200]!r} is not a key of {ROOT}")


class ParsedRobotKey(NamedTuple):
    """A key of a robot taken apart."""

    robot: str
    word: str


def parse_robot_key(key: str) -> ParsedRobotKey:
    """Take a concrete key that a robot reports under apart."""
    root, _, rest = key.partition("/robots/")
    robot, _, word = rest.partition("/")
    if root != ROOT or word not in _OF_ROBOT or not _is_slug(robot):
        raise BadKey(f"{key[:200]!r} is not a key of a robot")
    return ParsedRobotKey(robot, word)


def _is_slug(segment: str) -> bool:
    return bool(segment.strip("-")) and not _FOLDED.search(segment) and segment not in _FIXED
