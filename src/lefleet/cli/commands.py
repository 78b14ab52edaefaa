"""Every command's arguments."""

from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, subcommand

from lefleet.cli.output import Output, RunOutput
from lefleet.cli.serving import Fleet, Ping, Replay, Router, Serve, ShowContract
from lefleet.errors import BadInput
from lefleet.records import (
    CompareOptions,
    Corrections,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    TrainRequest,
)


@dataclass(frozen=True, kw_only=True)
class StageCommand(Output):
    """A stage and its folder; subclasses add the request."""

    out: Path
    """Folder of this stage. Called again, an interrupted stage goes on there and a finished one
    answers at once."""


@dataclass(frozen=True, kw_only=True)
class CollectExpert(StageCommand):
    """Scripted demonstrations in simulation."""

    request: ExpertDemos


@dataclass(frozen=True, kw_only=True)
class CollectDataset(StageCommand):
    """Episodes of an existing LeRobotDataset, the same number for every task."""

    request: ExistingDataset


@dataclass(frozen=True, kw_only=True)
class CollectCorrections(StageCommand):
    """DAgger: a policy acts, the expert corrects."""

    request: Corrections


@dataclass(frozen=True)
class Collect:
    """Make a dataset: scripted demonstrations, an existing dataset, or corrections of a policy."""

    source: (
        Annotated[CollectExpert, subcommand("expert", prefix_name=False)]
        | Annotated[CollectDataset, subcommand("dataset", prefix_name=False)]
        | Annotated[CollectCorrections, subcommand("corrections", prefix_name=False)]
    )


@dataclass(frozen=True, kw_only=True)
class Train(StageCommand):
    """Train a policy with LeRobot. What follows a lone -- goes to lerobot-train as it is."""

    request: TrainRequest


@dataclass(frozen=True, kw_only=True)
class Evaluate(StageCommand):
    """Measure a checkpoint."""

    request: EvaluateRequest


@dataclass(frozen=True, kw_only=True)
class Improve(StageCommand):
    """Let a policy make data, and mix it into its demonstrations."""

    request: ImproveRequest


@dataclass(frozen=True, kw_only=True)
class Doctor(Output):
    """Check this machine, and say how to fix what is missing."""

    offline: bool = False
    """Do not ask the hub."""
    systemd: Path | None = None
    """Check nothing; print a systemd user unit that goes on with the interrupted runs of this work
    folder when the machine starts."""


@dataclass(frozen=True, kw_only=True)
class Run(RunOutput):
    """Run the loop that a config file describes, unattended. Further --key=value flags override
    the file, for instance --budgets.cycles=5. The run goes on when this command is left."""

    config: Annotated[Path, tyro.conf.arg(aliases=["-c"])]
    """YAML file, see configs/."""
    plan: bool = False
    """Print the stages and the exact commands, and do nothing."""


@dataclass(frozen=True, kw_only=True)
class Demo(RunOutput):
    """Three cycles on this machine in minutes: success really rises, nothing is made up."""

    plan: bool = False
    """Print the stages and the exact commands, and do nothing."""


@dataclass(frozen=True, kw_only=True)
class Resume(RunOutput):
    """Continue a run, or look at one that is under way."""

    run: Annotated[str, Positional] = ""
    """Name of the run."""
    all: bool = False
    """Continue every run that was interrupted, for instance by a reboot, and return. Stopped and
    failed ones are named and left alone."""


@dataclass(frozen=True, kw_only=True)
class Stop(RunOutput):
    """Stop a run; it can be resumed."""

    run: Annotated[str, Positional]
    """Name of the run."""


@dataclass(frozen=True, kw_only=True)
class Compare(RunOutput):
    """Is A better than B? Runs both on the same fresh seeds and stops when the answer is clear. A
    and B are paths of checkpoints, hub ids, RUN for its blessed one, RUN:CYCLE, or blessed."""

    a: Annotated[str, Positional] = ""
    """Checkpoint that is judged."""
    b: Annotated[str, Positional] = ""
    """Checkpoint that it is judged against."""
    outcomes: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Judge outcomes in a CSV file instead, for instance of a real robot. Columns trial, task, a, b
    (pairs) or trial, policy, success (single trials of a and b in the order they were run)."""
    options: CompareOptions
    out: Path | None = None
    """Folder for episodes, record and plot. Default: one under WORKDIR/comparisons that belongs to
    this question, so that the same command goes on or answers at once."""


@dataclass(frozen=True, kw_only=True)
class Status(RunOutput):
    """What the runs have come to."""

    run: Annotated[str, Positional] = ""
    """Name of a run. None: all of them."""
    watch: bool = False
    """Look again every two seconds until nothing is running."""


Command = (
    Annotated[Demo, subcommand("demo", prefix_name=False)]
    | Annotated[Run, subcommand("run", prefix_name=False)]
    | Annotated[Resume, subcommand("resume", prefix_name=False)]
    | Annotated[Stop, subcommand("stop", prefix_name=False)]
    | Annotated[Status, subcommand("status", prefix_name=False)]
    | Annotated[Collect, subcommand("collect", prefix_name=False)]
    | Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[Evaluate, subcommand("eval", prefix_name=False)]
    | Annotated[Compare, subcommand("compare", prefix_name=False)]
    | Annotated[Improve, subcommand("improve", prefix_name=False)]
    | Annotated[Serve, subcommand("serve", prefix_name=False)]
    | Annotated[Router, subcommand("router", prefix_name=False)]
    | Annotated[Fleet, subcommand("fleet", prefix_name=False)]
    | Annotated[Ping, subcommand("ping", prefix_name=False)]
    | Annotated[Replay, subcommand("replay", prefix_name=False)]
    | Annotated[ShowContract, subcommand("contract", prefix_name=False)]
    | Annotated[Doctor, subcommand("doctor", prefix_name=False)]
)


StageLeaf = CollectExpert | CollectDataset | CollectCorrections | Train | Evaluate | Improve
LoopLeaf = Demo | Run | Resume | Stop | Status
ServingLeaf = Serve | Router | Fleet | Ping | Replay | ShowContract
Leaf = StageLeaf | LoopLeaf | ServingLeaf | Compare | Doctor

_WITH_FILE: dict[str, type] = {"run": Run, "demo": Run, "serve": Serve, "replay": Replay}
"""Commands whose --key=value flags override a file, and those that are their own."""


class Parsed(NamedTuple):
    """A command and the --key=value flags that override its config or manifest."""

    command: Leaf
    overrides: tuple[str, ...] = ()


def parse(arguments: list[str]) -> Parsed:
    """Arguments to a command; prints help or an error and exits 2 where they are wrong."""
    if arguments and (command_type := _WITH_FILE.get(arguments[0])):
        overrides = [one for one in arguments[1:] if _is_override(one, command_type)]
        own = [one for one in arguments if one not in overrides]
        _require_equals_signs(own, command_type)
        return Parsed(_leaf(own), tuple(overrides))
    where = arguments.index("--") if "--" in arguments else len(arguments)
    command, extra = _leaf(arguments[:where]), arguments[where + 1 :]
    if not extra:
        return Parsed(command)
    if not isinstance(command, Train):
        raise BadInput("--: only train takes further flags.", "Leave out what follows --.")
    request = msgspec.structs.replace(command.request, extra_args=tuple(extra))
    return Parsed(replace(command, request=request))


def _is_override(argument: str, command: type) -> bool:
    """Whether a flag sets a field of the config or manifest, and not of the command."""
    name = argument.removeprefix("--").partition("=")[0].replace("_", "-")
    return argument.startswith("--") and "=" in argument and name not in _flags(command)


def _require_equals_signs(arguments: list[str], command: type) -> None:
    """Refuse `--key value`: only the command's own flags may have a space there.

    What looks like a misspelt flag of its own is left to the parser, which suggests the right one.
    """
    own = [*_flags(command), "help"]
    for flag, value in pairwise(arguments):
        name = flag.removeprefix("--").replace("_", "-")
        is_flag = flag.startswith("--") and len(flag) > 2 and "=" not in flag
        if is_flag and not value.startswith("-") and not get_close_matches(name, own):
            raise BadInput(f"{flag}: its value must follow an =.", f"Write {flag}={value}")


def _flags(command: type) -> list[str]:
    return [field.name.replace("_", "-") for field in fields(command)]


def _leaf(arguments: list[str]) -> Leaf:
    parsed = tyro.cli(
        Command,
        prog="lefleet",
        description="LeRobot robots that improve themselves.",
        args=arguments,
        config=(OmitArgPrefixes, FlagCreatePairsOff),
    )
    return parsed.source if isinstance(parsed, Collect) else parsed
