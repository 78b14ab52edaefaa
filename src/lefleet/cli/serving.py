"""Arguments of the commands about policy servers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from lefleet.cli.output import Output, RunOutput

ENDPOINT = "tcp/127.0.0.1:7447"
"""Where a server or router on this machine is, unless it was told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Serve(RunOutput):
    """Serve a checkpoint to robots. Further --key=value flags override the manifest, for instance
    --model.device=cuda. Stops with Ctrl-C, SIGTERM or SIGHUP, after the requests under way."""

    run: Annotated[str, Positional, arg(metavar="[RUN]")] = ""
    """A run, for its blessed checkpoint; RUN:CYCLE, or blessed for the newest blessed one. None:
    the manifest's model.repo_or_path."""
    manifest: Path | None = None
    """YAML file, see configs/serve.yaml."""
    plan: bool = False
    """Measure the policy, say how many robots it can feed, and do not serve."""
    rtt_ms: float = 10.0
    """With --plan: round trip to the robots without the policy's part, see lefleet ping."""


@dataclass(frozen=True, kw_only=True)
class Replay(Output):
    """Compute captured requests again, and compare with the answers that robots got. Further
    --key=value flags override the manifest, for instance --model.device=cpu."""

    folder: Annotated[Path, Positional, arg(metavar="DIR")]
    """The capture.dir of a server."""
    manifest: Path | None = None
    """The policy to compute with. None: the one that the captures name."""


@dataclass(frozen=True, kw_only=True)
class Secured(Output):
    """Commands that use the network."""

    tls_ca: Annotated[str, arg(name="tls.ca")] = ""
    """Certificate of the authority that the other side's certificate must come from."""
    tls_cert: Annotated[str, arg(name="tls.cert")] = ""
    """Own certificate."""
    tls_key: Annotated[str, arg(name="tls.key")] = ""
    """Own private key."""


@dataclass(frozen=True, kw_only=True)
class Router(Secured):
    """Connect robots and servers that cannot reach each other. Stops with Ctrl-C, SIGTERM or
    SIGHUP."""

    listen: tuple[str, ...] = (ENDPOINT,)
    """Where robots and servers connect to, such as tls/0.0.0.0:7447."""
    connect: tuple[str, ...] = ()
    """Other routers."""


@dataclass(frozen=True, kw_only=True)
class Connected(Secured):
    """Commands that ask servers."""

    connect: tuple[str, ...] = (ENDPOINT,)
    """A router, or servers."""
    timeout_s: float = 2.0
    """How long to wait for a connection, and for answers."""


@dataclass(frozen=True, kw_only=True)
class Fleet(Connected):
    """Servers and their robots: live in a terminal, once elsewhere."""

    service: Annotated[str, Positional, arg(metavar="[SERVICE]")] = ""
    """Only this service."""
    once: bool = False
    """Look once, also in a terminal."""
    watch: bool = False
    """Look again and again, also where stdout is no terminal; with --json a line for each look."""


@dataclass(frozen=True, kw_only=True)
class Ping(Connected):
    """Where the time between an observation and its chunk goes. Takes a robot's place meanwhile."""

    service: Annotated[str, Positional, arg(metavar="SERVICE")]
    """Name of the service, see lefleet fleet."""
    count: int = 20
    """Requests."""


@dataclass(frozen=True, kw_only=True)
class ShowContract(RunOutput):
    """What the columns of a checkpoint mean, how that is known, and a manifest to serve it."""

    checkpoint: Annotated[str, Positional, arg(metavar="CHECKPOINT")]
    """Folder of a checkpoint, hub id, RUN for its blessed one, RUN:CYCLE, or blessed for the newest
    blessed one."""
    discover_packages: tuple[str, ...] = ()
    """Packages that bring policies of their own, as model.discover_packages of a manifest."""
