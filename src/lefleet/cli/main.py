"""Entry point: which function runs which command, exit codes, error style.

Exit codes: 0 done, 1 failed, 2 bad input (nothing was started), 3 the run waits for a person,
4 denied by the constitution, 130 interrupted with Ctrl-C.
"""

import os
import sys
import traceback
from pathlib import Path

from lefleet.cli.overview import overview, requested_help
from lefleet.errors import LeFleetError

_STAGES = ("collect", "train", "eval", "improve", "compare", "profile")


def main() -> int:
    arguments = sys.argv[1:]
    if (code := _own_program(arguments)) is not None:
        return code
    if arguments == ["--version"]:
        from importlib.metadata import version

        print(version("lefleet"))
        return 0
    if not arguments:
        print(overview(), file=sys.stderr)
        return 2
    if (text := requested_help(arguments)) is not None:
        print(text)
        return 0
    debug = "--debug" in arguments
    try:
        return _run(arguments)
    except LeFleetError as error:
        if debug:
            traceback.print_exc()
        print(f"lefleet: {_shown(error)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        hint = " Run the same command again to resume." if _resumes(arguments) else ""
        print(f"\nlefleet: interrupted.{hint}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has exited, so an error message would fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _own_program(arguments: list[str]) -> int | None:
    """Run what only LeFleet itself starts; None for commands of people."""
    if arguments[:2] == ["stage", "exec"] and len(arguments) == 3:
        from lefleet.stages.run import execute

        return execute(Path(arguments[2]))
    if arguments[:2] == ["stage", "drive"] and len(arguments) == 4:
        from lefleet.executors.driver import drive

        return drive(Path(arguments[2]), arguments[3])
    if arguments[:2] == ["cluster", "probe"] and len(arguments) == 4:
        from lefleet.executors.checks import probe_nodes

        return probe_nodes(Path(arguments[2]), arguments[3])
    if arguments[:2] == ["controller", "exec"] and len(arguments) == 4:
        from lefleet.cli.runs import control

        return control(Path(arguments[2]), arguments[3])
    if arguments[:2] == ["notify", "exec"] and len(arguments) == 4:
        from lefleet.notify.sender import send_pending

        return send_pending(Path(arguments[2]), arguments[3])
    if arguments[:2] == ["track", "exec"] and len(arguments) == 4:
        from lefleet.track.sender import send_pending as log_pending

        return log_pending(Path(arguments[2]), arguments[3])
    if arguments[:2] == ["track", "write"] and len(arguments) == 5:
        from lefleet.loop.tracking import write_series

        return write_series(Path(arguments[2]), *arguments[3:])
    if arguments[:2] == ["film", "exec"] and len(arguments) == 7:
        from lefleet.actions.films import execute as execute_film

        workdir, run, cycle, task, seed = arguments[2:]
        return execute_film(Path(workdir), run, int(cycle), task, int(seed))
    if arguments[:2] == ["device", "probe"] and len(arguments) == 3:
        from lefleet.devices.probe import main as probe_device

        return probe_device(arguments[2])
    if arguments[:2] == ["environment", "probe"]:
        from lefleet.stages.environment_probe import main as probe_environment

        return probe_environment(arguments[2:])
    if arguments == ["graphics", "probe"]:
        from lefleet.stages.cameras import print_report

        return print_report()
    return None


def _shown(error: LeFleetError) -> str:
    """It may quote a file or another machine, and must not control the terminal."""
    from lefleet.cli.output import printable

    return "\n".join(printable(line) for line in str(error).split("\n"))


def _resumes(arguments: list[str]) -> bool:
    """Whether the same command continues from what an interrupted one left on disk."""
    is_from_file = any(one.partition("=")[0] == "--from" for one in arguments)
    return bool(arguments) and arguments[0] in _STAGES and not is_from_file


def _run(arguments: list[str]) -> int:  # noqa: PLR0912, PLR0915 - one branch per command
    """Each command imports only what it needs: `fleet` does without torch."""
    if arguments[0] != "serve":
        # LeFleet itself starts no other of these commands, so no rules come from a parent.
        from lefleet.constitution.active import forget_handed_down

        forget_handed_down()
    if arguments[0] == "rollout":
        # Its flags are LeRobot's, which only LeRobot's parser knows.
        from lefleet.cli.rollout import rollout

        return rollout(arguments[1:])
    from lefleet.cli import commands
    from lefleet.cli.parse import parse

    command, overrides = parse(arguments)
    match command:
        case commands.StageCommand():
            from lefleet.cli.stages import run_stage_command

            return run_stage_command(command)
        case commands.CompareCommand():
            from lefleet.cli.stages import compare

            return compare(command)
        case commands.ProfileCommand():
            from lefleet.cli.stages import profile

            return profile(command)
        case commands.TryCommand():
            from lefleet.cli.trial import try_checkpoint

            return try_checkpoint(command)
        case commands.DoctorCommand():
            from lefleet.cli.doctor import run_doctor

            return run_doctor(command, overrides)
        case commands.DemoCommand() | commands.RunCommand():
            from lefleet.cli.runs import run

            return run(command, overrides)
        case commands.ResumeCommand():
            from lefleet.cli.runs import resume

            return resume(command, overrides)
        case commands.StopCommand():
            from lefleet.cli.runs import stop

            return stop(command)
        case commands.StatusCommand():
            from lefleet.cli.view import status

            return status(command)
        case commands.ServeCommand():
            from lefleet.cli.serve import serve

            return serve(command, overrides)
        case commands.ReplayCommand():
            from lefleet.cli.serve import replay

            return replay(command, overrides)
        case commands.ContractCommand():
            from lefleet.cli.contract import show_contract

            return show_contract(command)
        case commands.RouterCommand():
            from lefleet.cli.network import route

            return route(command)
        case commands.FleetCommand():
            from lefleet.cli.fleet import fleet

            return fleet(command)
        case commands.PingCommand():
            from lefleet.cli.fleet import ping_service

            return ping_service(command)
        case _:
            from lefleet.cli import (
                approvals,
                certs,
                cluster,
                constitution,
                dash,
                episodes,
                films,
                inspect,
                knowledge,
                ledger,
                run_report,
                track,
            )

            match command:
                case approvals.AnswerCommand():
                    return approvals.answer(command)
                case certs.CertsOptions():
                    return certs.run_certs(command)
                case cluster.ClusterOptions():
                    return cluster.run_cluster(command)
                case constitution.ConstitutionOptions():
                    return constitution.run_constitution(command)
                case dash.DashCommand():
                    return dash.dash(command)
                case dash.DashTokenOptions():
                    return dash.dash_token(command)
                case episodes.LabelCommand():
                    return episodes.label_episode(command)
                case episodes.LineageCommand():
                    return episodes.show_lineage(command)
                case films.FilmCommand():
                    return films.film(command)
                case inspect.InspectCommand():
                    return inspect.inspect(command)
                case knowledge.KnowledgeOptions():
                    return knowledge.run_knowledge(command)
                case ledger.LedgerCopyCommand():
                    return ledger.copy(command)
                case run_report.ReportCommand():
                    return run_report.write_run_report(command)
                case track.TrackCommand():
                    return track.track(command)
            raise AssertionError(f"no function runs {command}")
