"""rollout: a robot at work, with LeRobot's strategies and flags."""

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from threading import Event
from types import FrameType

from lefleet.cli.network import network_errors
from lefleet.constitution import (
    ConstitutionSource,
    Grants,
    RolloutFacts,
    find,
    installed,
    rules_for_grants,
)
from lefleet.constitution.active import WORKDIR
from lefleet.constitution.argv import flags_as_given, normal
from lefleet.constitution.grants import PLUGIN_KEY
from lefleet.devices import ready_device
from lefleet.errors import BadInput
from lefleet_client.remote import Refused

_DEVICES = ("device", "policy.device")
_USAGE = """\
usage: lefleet rollout --robot.type=TYPE --inference.type=remote|sync|rtc [LeRobot's flags]

Drive a robot with LeRobot's strategies. remote: the policy is on a server, see lefleet serve.
sync and rtc: it is here, --policy.path. Ctrl-C ends in the robot's initial pose.

A simulated robot for 5 s, with the policy of lefleet serve demo:
  lefleet rollout --robot.type=lefleet_sim --robot.task=door-open --fps=80 --duration=5 \\
      --inference.type=remote

Ten recorded episodes; keys s and f say whether one succeeded:
  lefleet rollout --robot.type=so101_follower --robot.port=/dev/ttyACM0 --robot.id=arm-7 \\
      --inference.type=remote --inference.connect=tls/gpu-box:7447 --inference.tls=arm-7 \\
      --strategy.type=episodic --dataset.num_episodes=10 --dataset.repo_id=lab/rollout_fold \\
      --task="Fold the shirt."

Nothing real moves unless the constitution allows it: real_hardware: true in runs/constitution.yaml,
which lefleet constitution init writes, or in the file that --constitution=FILE names.

Without a network, with the same guard:
  lefleet rollout --robot.type=so101_follower --robot.port=/dev/ttyACM0 --robot.id=arm-7 \\
      --policy.path=FOLDER --guard.max_step=5 --task="Fold the shirt."

Ours: --constitution=FILE and --workdir=FOLDER, whose rules and runs are used (default: runs).

All flags; name a type, for instance --strategy.type=episodic --help, to see its own:
"""


@network_errors()
def rollout(arguments: list[str]) -> int:
    """Drive a robot until its strategy ends, Ctrl-C, or the policy is lost for good."""
    arguments, rules_file = _own_flag(arguments, "constitution")
    arguments, folder = _own_flag(arguments, "workdir")
    workdir = Path(folder) if folder else WORKDIR
    is_help = bool({"-h", "--help"} & set(arguments))
    # Before a help too: the parser imports packages that flags name before it prints anything.
    _require_allowed_flags(arguments, find(workdir, rules_file), moves=not is_help)
    if is_help:
        print(_USAGE)
        sys.stdout.flush()
    else:
        with installed(rules_for_grants(find(workdir, rules_file), Grants())):
            arguments = with_ready_device(arguments)
    from datasets import disable_progress_bars
    from lerobot.scripts import lerobot_rollout  # noqa: F401 - registers robots and teleoperators
    from lerobot.utils.import_utils import register_third_party_plugins
    from lerobot.utils.utils import init_logging

    import lefleet.robots  # noqa: F401 - registers the simulated ones
    from lefleet.edge.flags import parse_flags
    from lefleet.edge.limits import facts_of
    from lefleet.edge.rollout import run_rollout

    register_third_party_plugins()
    cfg = parse_flags([_resolved(one, workdir) for one in arguments if one != "--debug"])
    facts = facts_of(cfg)
    rules = rules_for_grants(find(workdir, rules_file), facts.grants())
    rules.check_rollout(facts)
    init_logging()
    logging.getLogger("lerobot.utils.import_utils").addFilter(_first_line_only)
    disable_progress_bars()
    logging.getLogger("OpenGL").setLevel(logging.WARNING)
    shutdown_event = Event()
    with ExitStack() as stack:
        stack.enter_context(installed(rules))
        stack.enter_context(_stopped_by_signals(shutdown_event))
        if cfg.display_data:
            stack.enter_context(_display(cfg.display_mode, cfg.display_ip, cfg.display_port))
        try:
            dataset = run_rollout(cfg, shutdown_event)
        except Refused as error:
            raise BadInput(f"{error}.") from error
        except ImportError as error:
            # LeRobot's text names the package, and the extra that has it.
            raise BadInput(f"robot.type: {' '.join(str(error).split())}") from error
    if dataset is not None:
        print(_recorded(dataset.root, dataset.num_episodes))
    return 0


def with_ready_device(arguments: list[str]) -> list[str]:
    """The flags with the device that they name for a policy in this process, tried out: LeRobot
    goes on with another one where it finds none. The one of a remote policy is its server's."""
    flags = flags_as_given(arguments)
    if flags.get("inference.type") == "remote":
        return arguments
    for key in _DEVICES:
        if key in flags:
            device = ready_device(flags[key], key)
            arguments = [
                f"--{key}={device}" if one.startswith(f"--{key}=") else one for one in arguments
            ]
            for place, one in enumerate(arguments[:-1]):
                if one == f"--{key}":
                    arguments[place + 1] = device
    return arguments


def _own_flag(arguments: list[str], name: str) -> tuple[list[str], str]:
    """The flags of LeRobot, and the value of one of ours."""
    named = [one for one in arguments if one.partition("=")[0] == f"--{name}"]
    if any("=" not in one or one.endswith("=") for one in named) or len(named) > 1:
        raise BadInput(f"{name}: one path is needed.", f"Write --{name}=PATH.")
    others = [one for one in arguments if one not in named]
    return others, named[0].partition("=")[2] if named else ""


def _require_allowed_flags(
    arguments: list[str], source: ConstitutionSource, *, moves: bool
) -> None:
    """Raise Denied for what the flags alone show: the parser imports the packages that they name.
    Types of robots matter only where one `moves`.

    All else is judged when they are parsed, before anything is connected.
    """
    flags = flags_as_given(arguments)
    devices = flags if moves else {}
    facts = RolloutFacts(
        robot=tuple(value for key, value in devices.items() if key == "robot.type"),
        teleoperator=tuple(value for key, value in devices.items() if key == "teleop.type"),
        plugins=tuple(_plugins(arguments)),
        config_paths=tuple(value for key, value in flags.items() if key == "config_path"),
    )
    rules_for_grants(source, facts.grants()).check_rollout(facts)


def _plugins(arguments: list[str]) -> Iterator[str]:
    """Packages that LeRobot imports: of every flag that names one, also where keys differ only in
    how they are spelled."""
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        key, equals, value = argument.partition("=")
        if PLUGIN_KEY in normal(key):
            yield value if equals else following


def _resolved(argument: str, workdir: Path) -> str:
    """`--policy.path` may name a run, as in all commands."""
    flag, equals, name = argument.partition("=")
    if flag != "--policy.path" or not equals:
        return argument
    from lefleet.cli.checkpoints import choose_checkpoint

    return f"{flag}={choose_checkpoint(name, workdir, 'policy.path').location}"


def _first_line_only(record: logging.LogRecord) -> bool:
    """LeRobot logs 80 lines where one of its video decoders cannot be loaded, and uses another."""
    text = record.getMessage()
    if "torchcodec" in text:
        record.msg, record.args = text.strip().splitlines()[-1], ()
    return True


def _recorded(root: Path, episodes: int) -> str:
    """How many episodes there are, and how many of them are known to have succeeded."""
    from lefleet.recording import outcomes

    known = [one.success for one in outcomes(root).values() if one.success is not None]
    are = "1 episode is" if episodes == 1 else f"{episodes} episodes are"
    ends = f", {known.count(True)} of {len(known)} labelled ones succeeded" if known else ""
    return f"{are} in {root}{ends}."


@contextmanager
def _stopped_by_signals(shutdown_event: Event) -> Iterator[None]:
    """The first signal ends the rollout in order; a second one interrupts what takes long then, and
    further ones do nothing: a robot is being disconnected.

    Where SIGHUP is ignored, as under nohup, it stays ignored. SIGINT never is, as for all commands.
    """

    is_interrupted = False

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal is_interrupted
        if not shutdown_event.is_set():
            shutdown_event.set()
        elif number != signal.SIGHUP and not is_interrupted:
            is_interrupted = True
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _display(mode: str, ip: str | None, port: int | None) -> Iterator[None]:
    from lerobot.utils.visualization_utils import init_visualization, shutdown_visualization

    try:
        init_visualization(mode, session_name="rollout", ip=ip, port=port)
    except (ImportError, ValueError) as error:
        raise BadInput(f"display_mode: {error}.") from error
    try:
        yield
    finally:
        shutdown_visualization(mode)
