"""The arguments of most commands. Field docstrings are the texts of --help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from lefleet.cli.options import (
    CheckpointOptions,
    OutputOptions,
    RestartOptions,
    WorkdirOptions,
)
from lefleet.records import (
    CompareOptions,
    Corrections,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    ProfileOptions,
    TrainRequest,
)
from lefleet.trial.messages import TrialOptions

ENDPOINT = "tcp/127.0.0.1:7447"
"""Where a server or router on this machine listens by default."""


@dataclass(frozen=True, kw_only=True)
class StageCommand(RestartOptions):
    """A stage and its folder; subclasses add the request."""

    out: Path
    """Folder of this stage. If it holds an interrupted stage, that stage resumes; if it holds a
    finished one, the result is printed again."""


@dataclass(frozen=True, kw_only=True)
class CheckpointStageCommand(StageCommand, WorkdirOptions):
    """A stage that starts from a checkpoint, which may be named by its run."""


@dataclass(frozen=True, kw_only=True)
class CollectExpertCommand(StageCommand):
    """Record scripted demonstrations in simulation."""

    request: ExpertDemos


@dataclass(frozen=True, kw_only=True)
class CollectDatasetCommand(StageCommand):
    """Select episodes of an existing LeRobotDataset, the same number for every task."""

    request: ExistingDataset


@dataclass(frozen=True, kw_only=True)
class CollectCorrectionsCommand(CheckpointStageCommand):
    """DAgger: a policy acts, the expert corrects."""

    request: Corrections


@dataclass(frozen=True, kw_only=True)
class TrainCommand(CheckpointStageCommand):
    """Train a policy with LeRobot. Arguments after a lone --, each as --key=value, are passed on to
    lerobot-train."""

    request: TrainRequest


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand(CheckpointStageCommand):
    """Measure the success rate of a checkpoint."""

    request: EvaluateRequest


@dataclass(frozen=True, kw_only=True)
class ImproveCommand(CheckpointStageCommand):
    """Generate data with a policy, and mix it into its demonstrations."""

    request: ImproveRequest


@dataclass(frozen=True, kw_only=True)
class DoctorCommand(WorkdirOptions):
    """Check this machine, and with -c whether a run of a config could begin here; print a remedy
    for every problem. Further --key=value flags override the config."""

    config: Annotated[Path | None, arg(aliases=["-c"])] = None
    """YAML file of a run, see configs/."""

    offline: bool = False
    """Do not contact the hub."""
    systemd: Path | None = None
    """Only print a systemd unit and timer that resume interrupted runs and time out approvals."""


@dataclass(frozen=True, kw_only=True)
class RunCommand(WorkdirOptions):
    """Run the loop that a config file describes, unattended. Further --key=value flags override
    the file, for instance --budgets.cycles=5. Ctrl-C only detaches: the run continues."""

    config: Annotated[Path, arg(aliases=["-c"])]
    """YAML file, see configs/."""
    start: Annotated[str, arg(name="from", metavar="RUN[:CYCLE]")] = ""
    """Start from another run's data and from the checkpoint that is blessed after this cycle.
    Default cycle: the last one that was decided. The new run needs a name of its own, has fresh
    seeds, and the whole gate.alpha again."""
    plan: bool = False
    """Print the stages and the commands that would run each of them, and run nothing."""


@dataclass(frozen=True, kw_only=True)
class DemoCommand(WorkdirOptions):
    """Run three real cycles on this machine in minutes, and watch success rise."""

    plan: bool = False
    """Print the stages and the commands that would run each of them, and run nothing."""


@dataclass(frozen=True, kw_only=True)
class ResumeCommand(WorkdirOptions):
    """Resume a run, or attach to a running one. Flags such as --budgets.cycles=6 or --device=cpu
    change its config first, as far as that falsifies no evidence; larger budgets also continue a
    finished run."""

    run: Annotated[str, Positional, arg(metavar="[NAME]")] = ""
    """Name of the run."""
    all: bool = False
    """Resume every interrupted run, for instance after a reboot, and return. Stopped and failed
    runs are listed and left unchanged."""


@dataclass(frozen=True, kw_only=True)
class StopCommand(WorkdirOptions):
    """Stop a run; it can be resumed."""

    run: Annotated[str, Positional, arg(metavar="NAME")]
    """Name of the run."""


@dataclass(frozen=True, kw_only=True)
class StatusCommand(WorkdirOptions):
    """Show the results and the state of runs."""

    run: Annotated[str, Positional, arg(metavar="[NAME]")] = ""
    """Name of a run. Default: all runs."""
    watch: bool = False
    """Watch until no run is active: redraw every second in a terminal, elsewhere print lines. With
    the option --json, print a run's status as a line whenever it changes. Ctrl-C stops watching,
    not the runs."""


@dataclass(frozen=True, kw_only=True)
class CompareCommand(RestartOptions, WorkdirOptions):
    """Is A better than B? Runs both on the same fresh seeds and stops when the answer is clear. A
    and B are checkpoints: RUN (its blessed one), RUN:CYCLE, blessed (the newest blessed one), a
    folder, or a hub id."""

    a: Annotated[str, Positional, arg(metavar="[A]")] = ""
    """Candidate checkpoint."""
    b: Annotated[str, Positional, arg(metavar="[B]")] = ""
    """Baseline checkpoint."""
    outcomes: Annotated[tuple[Path, ...], arg(name="from", metavar="FILE [FILE]")] = ()
    """Judge outcomes that are there already: a CSV file, for instance from a real robot, or two
    eval_info.json of lerobot-eval (or their folders), A's first. Columns of a CSV file: trial,
    task, a, b (pairs) or trial, policy, success (single trials of a and b in the order of running).
    """
    same_seeds: bool = False
    """With two eval_info.json: both ran with the same --seed, and a seed determines how an episode
    begins, so that episodes are pairs. Default: they are compared as single trials."""
    options: Annotated[CompareOptions, arg(name="comparison")]
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """Folder for episodes, record and plot. Default: a folder under WORKDIR/comparisons derived
    from the question, so that the same command resumes or prints the answer again."""


@dataclass(frozen=True, kw_only=True)
class ServeCommand(WorkdirOptions):
    """Serve a checkpoint to robots. Further --key=value flags override the manifest, for instance
    --model.device=cuda. Ctrl-C, SIGTERM or SIGHUP finishes in-flight requests, then stops."""

    checkpoint: Annotated[str, Positional, arg(metavar="[CHECKPOINT]")] = ""
    """RUN (its blessed checkpoint), RUN:CYCLE, blessed (the newest blessed one), a folder, or a hub
    id. Default: the manifest's model.repo_or_path."""
    manifest: Path | None = None
    """YAML file, see configs/serve.yaml."""
    plan: bool = False
    """Measure the policy, print how many robots one server can handle, and exit."""
    insecure: bool = False
    """Accept endpoints beyond this machine that are not encrypted: anyone on the network can then
    read and forge what robots and servers send. The same as insecure: true in the manifest."""
    tls: str = ""
    """Folder that lefleet certs made, for tls/ endpoints. The same as zenoh.tls in the manifest."""
    rtt_ms: float = 10.0
    """With --plan: network round trip to the robots, see lefleet ping."""


@dataclass(frozen=True, kw_only=True)
class ReplayCommand(OutputOptions):
    """Recompute captured requests and compare the chunks with those that the robots received.
    Further --key=value flags override the manifest, for instance --model.device=cpu."""

    folder: Annotated[Path, Positional, arg(metavar="DIR")]
    """The capture.dir of a server."""
    manifest: Path | None = None
    """Manifest of the policy to recompute with. Default: the policy named in the captures."""
    allow_packages: bool = False
    """Import the packages that the captures name, which runs their code."""


@dataclass(frozen=True, kw_only=True)
class ContractCommand(CheckpointOptions):
    """Show what a checkpoint's columns mean, the source of each fact, and a manifest to serve
    it."""

    discover_packages: tuple[str, ...] = ()
    """Packages that register their own policies, as model.discover_packages in a manifest."""


@dataclass(frozen=True, kw_only=True)
class ProfileCommand(RestartOptions, CheckpointOptions):
    """Measure how much latency a checkpoint bears, on simulated robots in wall-clock time. The
    result is kept beside the weights, and robots with a slower network are warned."""

    options: Annotated[ProfileOptions, arg(name="profile")]
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """Folder for episodes and record. Default: a folder under WORKDIR/profiles derived from
    checkpoint and options, so that the same command resumes or prints the result again."""


@dataclass(frozen=True, kw_only=True)
class TryCommand(CheckpointOptions):
    """Watch a checkpoint drive simulated robots, on this machine: starts a policy server and the
    robots, shows their state, films every episode. Ctrl-C stops the robots, then the server."""

    options: Annotated[TrialOptions, arg(name="trial")]
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """Folder for films, log and summary. Default: WORKDIR/try/ and the time."""


@dataclass(frozen=True, kw_only=True)
class TlsOptions(OutputOptions):
    """Commands that use the network."""

    tls: str = ""
    """Folder that lefleet certs made: own certificate and key, and the authority's certificate."""
    tls_ca: Annotated[str, arg(name="tls.ca")] = ""
    """Certificate of the authority that signs the other side's certificate."""
    tls_cert: Annotated[str, arg(name="tls.cert")] = ""
    """Own certificate."""
    tls_key: Annotated[str, arg(name="tls.key")] = ""
    """Own private key."""
    insecure: bool = False
    """Accept endpoints beyond this machine that are not encrypted: anyone on the network can then
    read and forge what robots and servers send."""


@dataclass(frozen=True, kw_only=True)
class RouterCommand(TlsOptions):
    """Connect robots and servers that cannot reach each other directly. Stops with Ctrl-C, SIGTERM
    or SIGHUP."""

    listen: tuple[str, ...] = (ENDPOINT,)
    """Endpoints for robots and servers to connect to, such as tls/0.0.0.0:7447."""
    connect: tuple[str, ...] = ()
    """Other routers."""


@dataclass(frozen=True, kw_only=True)
class ConnectOptions(TlsOptions):
    """Commands that query servers."""

    connect: tuple[str, ...] = (ENDPOINT,)
    """Endpoint of a router, or endpoints of servers."""
    timeout_s: float = 2.0
    """How long to wait for a connection, and for answers."""


@dataclass(frozen=True, kw_only=True)
class FleetCommand(ConnectOptions):
    """List servers, and robots with their state: live in a terminal, otherwise once."""

    service: Annotated[str, Positional, arg(metavar="[SERVICE]")] = ""
    """Only this service."""
    once: bool = False
    """Print once, even in a terminal."""
    watch: bool = False
    """Refresh every second until Ctrl-C, even if stdout is not a terminal; with --json, one line
    per refresh."""


@dataclass(frozen=True, kw_only=True)
class PingCommand(ConnectOptions):
    """Measure where the time between an observation and its chunk goes. Uses one session while it
    runs."""

    service: Annotated[str, Positional, arg(metavar="SERVICE")]
    """Name of the service, see lefleet fleet."""
    model: str = ""
    """Name of the model, where several are served under this service."""
    revision: str = ""
    """Revision of the model, or the beginning of its digest as lefleet fleet shows it."""
    count: int = 20
    """Number of requests."""


COMMANDS: dict[str, type[OutputOptions]] = {
    "demo": DemoCommand,
    "run": RunCommand,
    "resume": ResumeCommand,
    "stop": StopCommand,
    "status": StatusCommand,
    "collect expert": CollectExpertCommand,
    "collect dataset": CollectDatasetCommand,
    "collect corrections": CollectCorrectionsCommand,
    "train": TrainCommand,
    "eval": EvaluateCommand,
    "compare": CompareCommand,
    "improve": ImproveCommand,
    "try": TryCommand,
    "serve": ServeCommand,
    "router": RouterCommand,
    "fleet": FleetCommand,
    "ping": PingCommand,
    "profile": ProfileCommand,
    "contract": ContractCommand,
    "replay": ReplayCommand,
    "doctor": DoctorCommand,
}
