"""cluster: a Ray cluster on this machine, for laptops and for trying out a config."""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from lefleet.cli.options import OutputOptions, WorkdirOptions
from lefleet.cli.output import print_json
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_phases
from lefleet.errors import BadInput, ClusterUnreachable, LeFleetError
from lefleet.stages.progress import Update


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(WorkdirOptions):
    """A cluster that belongs to a work folder."""


@dataclass(frozen=True, kw_only=True)
class ClusterUpCommand(ClusterOptions):
    """Start Ray on this machine, on loopback and with a token, and print what to put into a config.
    Needs the extra ray."""

    nodes: int = 1
    """Nodes, all on this machine."""
    cpus: int = 0
    """CPUs that each node offers. 0: those of this machine, divided among the nodes."""
    block: bool = False
    """Stay in the foreground; the cluster ends with this command."""


@dataclass(frozen=True, kw_only=True)
class ClusterDownCommand(ClusterOptions):
    """End the cluster that `cluster up` started for this work folder, and nothing else."""


@dataclass(frozen=True, kw_only=True)
class ClusterStatusCommand(ClusterOptions):
    """Show the cluster that `cluster up` started for this work folder."""


CLUSTER_COMMANDS: dict[str, type[OutputOptions]] = {
    "cluster up": ClusterUpCommand,
    "cluster down": ClusterDownCommand,
    "cluster status": ClusterStatusCommand,
}


def run_cluster(command: ClusterOptions) -> int:
    """Do what the command says."""
    match command:
        case ClusterUpCommand():
            return _up(command)
        case ClusterDownCommand():
            return _down(command)
    return _status(command)


def _up(command: ClusterUpCommand) -> int:
    from lefleet.cluster.nodes import FOLDER, down, processes_of, up
    from lefleet.rollouts import default_workers

    if command.nodes < 1 or command.cpus < 0:
        raise BadInput(
            "nodes: a cluster has at least one node, and CPUs are not negative.", "Ask for more."
        )
    workdir = absolute(command.workdir, "workdir")
    cpus = command.cpus or max(1, default_workers() // command.nodes)
    try:
        with show_phases("cluster", as_lines=command.json) as progress:
            up(
                workdir,
                command.nodes,
                cpus,
                detached=not command.block,
                tell=lambda phase: progress(Update.phase(phase)),
            )
        _status(command)
        while command.block and processes_of(workdir / FOLDER):
            time.sleep(0.5)
    except BaseException:
        if command.block:
            down(workdir)
        raise
    return 0


def _down(command: ClusterOptions) -> int:
    from lefleet.cluster.nodes import down, read_cluster

    workdir = absolute(command.workdir, "workdir")
    cluster = read_cluster(workdir)
    runs = [run for run, address in _runs(workdir) if cluster and address == cluster.address]
    count = down(workdir)
    if command.json:
        print_json({"ended": count, "runs": runs})
        return 0
    print(f"{count} processes ended." if count else "No cluster was running.")
    if runs:
        print(f"Runs that worked on it wait now: {', '.join(runs)}.")
        print("The next cluster has another address. To continue there:")
        print(_move(runs[0], "ADDRESS", workdir))
    return 0


def _runs(workdir: Path) -> list[tuple[str, str]]:
    """Runs of this work folder that have not ended, with the address of the cluster that they
    name. None where the ledger does not answer: it must not keep a cluster alive."""
    from lefleet.ledger import read_ledger

    try:
        with closing(read_ledger(workdir)) as ledger:
            rows = [row for row in ledger.runs() if row.state == "running"]
    except LeFleetError:
        return []
    plans = [(row.id, row.corrected_config.get("executor", {})) for row in rows]
    return [(run, plan["address"]) for run, plan in plans if plan.get("type") == "ray"]


def _move(run: str, address: str, workdir: Path) -> str:
    where = f"--workdir {workdir}"
    return (
        f"  lefleet stop {run} {where}\n  lefleet resume {run} --executor.address={address} {where}"
    )


def _status(command: ClusterOptions) -> int:
    """Exit code 1 where none is running."""
    from lefleet.cluster.jobs import Jobs
    from lefleet.cluster.nodes import FOLDER, processes_of, read_cluster

    workdir = absolute(command.workdir, "workdir")
    cluster = read_cluster(workdir)
    if cluster is None or not processes_of(workdir / FOLDER):
        if command.json:
            print_json({"running": False})
        else:
            print("No cluster runs for this work folder. Start one:")
            print(f"  lefleet cluster up --workdir {workdir}")
        return 1
    try:
        nodes = Jobs(cluster.address, cluster.token_file).nodes()
    except ClusterUnreachable as error:
        remedy = f"End what is left of it: lefleet cluster down --workdir {workdir}"
        raise BadInput(error.problem, remedy) from error
    if command.json:
        print_json(
            {
                "running": True,
                "address": cluster.address,
                "token_file": cluster.token_file,
                "nodes": nodes,
                "runs": [run for run, address in _runs(workdir) if address == cluster.address],
            }
        )
        return 0
    print(f"{nodes} of {cluster.nodes} nodes are up, with {cluster.cpus} CPUs each.")
    print("In the config of a run whose work folder is this one:\n")
    print("executor:")
    print("  type: ray")
    print(f"  address: {cluster.address}")
    print(f"  token_file: {cluster.token_file}")
    runs = _runs(workdir)
    if here := [run for run, address in runs if address == cluster.address]:
        print(f"\nRuns on it: {', '.join(here)}")
    if elsewhere := [run for run, address in runs if address != cluster.address]:
        print(f"\n{', '.join(elsewhere)} names another address. To continue on this cluster:")
        print(_move(elsewhere[0], cluster.address, workdir))
    return 0
