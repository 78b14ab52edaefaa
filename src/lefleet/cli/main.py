"""Entry point: exit codes and error style.

0 done, 1 failed, 2 bad input; 3 (waiting for a person) and 4 (denied) belong to the loop.
"""

import os
import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from lefleet.errors import LeFleetError

if TYPE_CHECKING:
    from lefleet.cli.commands import ServingLeaf


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:2] == ["stage", "exec"] and len(arguments) == 3:
        from lefleet.stages.child import execute

        return execute(Path(arguments[2]))
    if arguments[:2] == ["controller", "exec"] and len(arguments) == 4:
        from lefleet.cli.loop import control

        return control(Path(arguments[2]), arguments[3])
    if arguments == ["--version"]:
        print(version("lefleet"))
        return 0
    debug = "--debug" in arguments
    try:
        return _run(arguments)
    except LeFleetError as error:
        if debug:
            traceback.print_exc()
        print(f"lefleet: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nlefleet: stopped. Run the same command again to go on.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody to complain to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _run(arguments: list[str]) -> int:
    from lefleet.cli.commands import Compare, Doctor, ServingLeaf, StageCommand, parse

    command, overrides = parse(arguments)
    if isinstance(command, Doctor):
        from lefleet.cli.doctor import run_doctor

        return run_doctor(command)
    if isinstance(command, Compare):
        from lefleet.cli.compare import compare_command

        return compare_command(command)
    if isinstance(command, StageCommand):
        from lefleet.cli.stage import run_stage_command

        return run_stage_command(command)
    if isinstance(command, ServingLeaf):
        return _run_serving(command, overrides)
    from lefleet.cli.loop import run_loop_command

    return run_loop_command(command, overrides)


def _run_serving(command: "ServingLeaf", overrides: tuple[str, ...]) -> int:
    """Each command imports only what it needs: looking at a fleet takes no torch."""
    from lefleet.cli.network import network_errors
    from lefleet.cli.serving import Fleet, Ping, Replay, Router, Serve

    with network_errors():
        match command:
            case Serve():
                from lefleet.cli.serve import serve_command

                return serve_command(command, overrides)
            case Router():
                from lefleet.cli.router import router_command

                return router_command(command)
            case Fleet():
                from lefleet.cli.fleet import fleet_command

                return fleet_command(command)
            case Ping():
                from lefleet.cli.ping import ping_command

                return ping_command(command)
            case Replay():
                from lefleet.cli.replay import replay_command

                return replay_command(command, overrides)
            case _:
                from lefleet.cli.contract import contract_command

                return contract_command(command)
