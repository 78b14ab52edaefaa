"""Entry point: exit codes and error style.

0 done, 1 failed, 2 bad input; 3 (waiting for a person) and 4 (denied) belong to the loop.
"""

import os
import sys
import traceback
from importlib.metadata import version
from pathlib import Path

from lefleet.errors import LeFleetError


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
    from lefleet.cli.commands import Compare, Doctor, StageCommand, parse

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
    from lefleet.cli.loop import run_loop_command

    return run_loop_command(command, overrides)
