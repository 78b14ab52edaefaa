"""Every command in one line: `lefleet --help`, and the nearest name to a misspelt one.

Imports almost nothing, so that help appears at once.
"""

from difflib import get_close_matches

from lefleet.errors import BadInput

GROUPS = {
    "Runs": {
        "demo": "Run three real cycles on this machine in minutes, and watch success rise.",
        "run": "Run the loop that a config file describes, unattended.",
        "resume": "Resume a run, or attach to a running one.",
        "stop": "Stop a run; it can be resumed.",
        "approve": "Say yes to what a run waits for.",
        "reject": "Say no to what a run waits for.",
        "status": "Show the results and the state of runs.",
        "dash": "Look at runs, robots and episodes in a browser, and answer what runs ask.",
        "report": "Write one HTML file about a run, to send to a colleague.",
        "track": "Log a run to trackio or W&B, also one that is over.",
        "film": "Film pairs of a gate: both checkpoints on the same seed.",
        "knowledge": "Read what runs have taught about tasks and policies, with its evidence.",
    },
    "Stages": {
        "collect": "Make a dataset: demonstrations, an existing dataset, or corrections.",
        "inspect": "Show what is in a dataset or a checkpoint, and what training on it would do.",
        "train": "Train a policy with LeRobot.",
        "eval": "Measure the success rate of a checkpoint.",
        "compare": "Is A better than B?",
        "improve": "Generate data with a policy, and mix it into its demonstrations.",
    },
    "Serving": {
        "try": "Watch a checkpoint drive simulated robots, on this machine.",
        "serve": "Serve a checkpoint to robots.",
        "rollout": "Drive a robot with a policy, on a server or here; LeRobot's flags.",
        "router": "Connect robots and servers that cannot reach each other directly.",
        "fleet": "List servers, and robots with their state: live in a terminal, otherwise once.",
        "ping": "Measure where the time between an observation and its chunk goes.",
        "certs": "Make certificates for robots, servers and operators, and say who may connect.",
        "profile": "Measure how much latency a checkpoint bears, on simulated robots.",
        "contract": "Show what a checkpoint's columns mean, and a manifest to serve it.",
        "replay": "Recompute captured requests and compare the chunks.",
    },
    "Recordings": {
        "label": "Say how a recorded episode ended.",
        "lineage": "Trace a motor command to its observation, checkpoint, training data and "
        "decision.",
    },
    "This machine": {
        "doctor": "Check this machine and print a remedy for every problem.",
        "cluster": "Start a Ray cluster on this machine, look at it, and end it.",
        "constitution": "Show, check and compare the rules that runs, servers and robots keep to.",
        "ledger": "Move the ledger of a work folder to Postgres, or back.",
    },
}
"""What each command does, grouped as a person looks for it."""
NESTED = {
    "collect": {
        "expert": "Record scripted demonstrations in simulation.",
        "dataset": "Select episodes of an existing LeRobotDataset, the same number for every task.",
        "corrections": "DAgger: a policy acts, the expert corrects.",
    },
    "certs": {
        "init": "Create an authority: the key that signs certificates.",
        "server": "Issue a certificate for a server or a router.",
        "robot": "Issue a certificate for a robot.",
        "operator": "Issue a certificate for a person, who may use fleet and ping.",
        "renew": "Issue a new key and certificate for a name.",
        "revoke": "Take a name off the access lists.",
        "list": "List names, and when their certificates expire.",
    },
    "cluster": {
        "up": "Start Ray on this machine, on loopback and with a token.",
        "down": "End the cluster that `cluster up` started for this work folder.",
        "status": "Show the cluster that `cluster up` started for this work folder.",
    },
    "constitution": {
        "check": "Check a constitution.",
        "explain": "Say in plain words what rules allow.",
        "diff": "Say in plain words what B allows that A does not, and what it no longer allows.",
        "init": "Write constitution.yaml to the work folder: a copy of the rules that come with "
        "LeFleet, to be edited.",
    },
    "ledger": {
        "copy": "Copy a ledger to an empty database, or back to a file, and use the copy.",
    },
    "knowledge": {
        "show": "List the pages with their status, or show one of them.",
        "lint": "Check the pages: broken, behind the ledger, or contradicted by newer evidence.",
        "search": "Find words in the pages.",
        "edit": "Replace the text of a page.",
        "update": "Write the pages of all runs from the ledger.",
    },
    "dash token": {
        "add": "Make a token for a person, and print it once.",
        "list": "List tokens: whose they are, and what they allow.",
        "revoke": "End a token.",
    },
}
"""Commands whose last word is one of these."""
_COMMANDS = {name: does for group in GROUPS.values() for name, does in group.items()}
_NESTED_DO = {
    "dash token": "Let people on other machines in, by name, and say what each may do.",
}
"""Of those that are no command of their own."""
_ABOUT = (
    "Collect, train, evaluate and improve LeRobot policies in a loop, and serve them to robots."
)


def overview() -> str:
    """The text of `lefleet --help`."""
    groups = [f"{title}:\n{_rows(commands)}" for title, commands in GROUPS.items()]
    end = "Options of a command: lefleet COMMAND --help\nVersion: lefleet --version"
    return "\n\n".join(["usage: lefleet COMMAND [OPTIONS]", _ABOUT, *groups, end])


def requested_help(arguments: list[str]) -> str | None:
    """The help that a command line asks for, where no single command's options are meant."""
    if arguments and arguments[0] in ("-h", "--help"):
        return overview()
    first, rest = _group(arguments)
    if first in NESTED and rest and rest[0] in ("-h", "--help"):
        names = ",".join(NESTED[first])
        usage = f"usage: lefleet {first} {{{names}}} [OPTIONS]"
        end = f"Options: lefleet {first} {next(iter(NESTED[first]))} --help"
        does = _COMMANDS.get(first) or _NESTED_DO[first]
        return "\n\n".join([usage, does, _rows(NESTED[first]), end])
    return None


def split_command(arguments: list[str]) -> tuple[str, list[str]]:
    """The command, of one to three words, and its arguments."""
    first = arguments[0]
    if first.startswith("-"):
        raise BadInput(f"{first}: a command must come first.", "See: lefleet --help")
    if first not in _COMMANDS:
        raise BadInput(
            f"there is no command {first}.", f"{did_you_mean(first, _COMMANDS)}See: lefleet --help"
        )
    first, rest = _group(arguments)
    if first not in NESTED:
        _require_flag(first, rest)
        return first, rest
    known = NESTED[first]
    see = f"See: lefleet {first} --help"
    if not rest or rest[0].startswith("-"):
        raise BadInput(f"{first} needs one of: {', '.join(known)}.", see)
    if rest[0] not in known:
        meant = did_you_mean(rest[0], known) or f"There are {', '.join(known)}. "
        raise BadInput(f"{first} has no command {rest[0]}.", f"{meant}{see}")
    return f"{first} {rest[0]}", rest[1:]


def _require_flag(first: str, rest: list[str]) -> None:
    """Of a command that takes no words, but with which others begin."""
    longer = next((name for name in NESTED if name.startswith(f"{first} ")), None)
    if longer is not None and rest and not rest[0].startswith("-"):
        raise BadInput(
            f"{first} has no command {rest[0]}.",
            f"Did you mean lefleet {longer} list? See: lefleet {longer} --help",
        )


def _group(arguments: list[str]) -> tuple[str, list[str]]:
    """The word or words in front of a command's last one, or the command itself if it has only one
    word; and the rest. `dash` is a command, and so is `dash token add`."""
    two = " ".join(arguments[:2])
    return (two, arguments[2:]) if two in NESTED else (arguments[0], arguments[1:])


def did_you_mean(word: str, known: list[str] | dict[str, str]) -> str:
    """A sentence that names the nearest known word; empty where none is near."""
    near = get_close_matches(word, known, 1)
    return f"Did you mean {near[0]}? " if near else ""


def _rows(commands: dict[str, str]) -> str:
    return "\n".join(f"  {name:<12} {does}" for name, does in commands.items())
