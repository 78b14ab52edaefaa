"""Every command's arguments."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, subcommand

from lefleet.errors import BadInput
from lefleet.records import (
    Corrections,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ImproveRequest,
    TrainRequest,
)


@dataclass(frozen=True, kw_only=True)
class Output:
    """How to answer."""

    json: bool = False
    """Print the result as JSON on stdout; progress goes to stderr."""
    debug: bool = False
    """Show stack traces."""


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
    """Measure a checkpoint, or two on the same seeds."""

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


Command = (
    Annotated[Collect, subcommand("collect", prefix_name=False)]
    | Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[Evaluate, subcommand("eval", prefix_name=False)]
    | Annotated[Improve, subcommand("improve", prefix_name=False)]
    | Annotated[Doctor, subcommand("doctor", prefix_name=False)]
)


Leaf = CollectExpert | CollectDataset | CollectCorrections | Train | Evaluate | Improve | Doctor


def parse(arguments: list[str]) -> Leaf:
    """Arguments to a command; prints help or an error and exits 2 where they are wrong."""
    where = arguments.index("--") if "--" in arguments else len(arguments)
    ours, extra = arguments[:where], arguments[where + 1 :]
    parsed = tyro.cli(
        Command,
        prog="lefleet",
        description="LeRobot robots that improve themselves.",
        args=ours,
        config=(OmitArgPrefixes, FlagCreatePairsOff),
    )
    command: Leaf = parsed.source if isinstance(parsed, Collect) else parsed
    if extra:
        if not isinstance(command, Train):
            raise BadInput("--: only train takes further flags.", "Leave out what follows --.")
        request = msgspec.structs.replace(command.request, extra_args=tuple(extra))
        return replace(command, request=request)
    return command
