"""Judge the final command line of a program, by what its arguments mean."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lefleet.constitution.argv import (
    CommandLine,
    flag_of,
    flattened,
    lerobot_flags,
    refuse_inclusion,
    require_literal,
)
from lefleet.constitution.checks import Checks, devices_of, is_on, rule_of
from lefleet.constitution.grants import PLUGIN_KEY, names_checkpoint, names_plugin
from lefleet.constitution.paths import matches
from lefleet.errors import Denied

TRAIN = "lerobot.scripts.lerobot_train"
LEFLEET = "lefleet"
OWN_TRAIN = "lefleet.compat.train"
_WORKER = "lefleet.rollouts.worker"
_LARGEST_CONFIG = 10_000_000
"""Bytes of a file for --config_path that is judged."""

_SECTIONS = frozenset(
    (
        *("dataset", "env", "policy", "reward_model", "eval", "wandb", "peft", "job"),
        *("optimizer", "scheduler", "sample_weighting", "robot", "teleop", "teleoperator"),
        *("inference", "strategy", "image_transforms", "processor"),
    )
)
"""Parts of a config. In place of one, LeRobot's parser takes a mapping or a file."""
_UPLOADS = ("push_to_hub", "save_checkpoint_to_hub", "wandb.enable", "recording_repo_id")
_OFFLINE = ("offline", "disabled")
_CAPS = {
    "steps": ("steps", "training steps"),
    "batch_size": ("batch_size", "batch size"),
    "num_workers": ("workers", "loader processes"),
    "eval.n_episodes": ("episodes_per_task", "episodes"),
    "eval.batch_size": ("batch_size", "batch size"),
}


def judge_command(check: Checks, line: CommandLine) -> None:
    """Raise Denied where `line` may not be started."""
    program, arguments = line
    commands = check.constitution.commands
    if not any(matches(program, (pattern,)) for pattern in commands):
        raise Denied(
            "commands",
            f"{program} is not an allowed program.",
            f"Add it to commands in {check.file}.",
        )
    if program == OWN_TRAIN or program.startswith("lerobot."):
        judge_flags(check, program, lerobot_flags(arguments))
    elif program == LEFLEET:
        _judge_lefleet(check, arguments)
    else:
        _judge_other(check, program, arguments)


def judge_flags(
    check: Checks, program: str, flags: dict[str, str], *, is_file: bool = False
) -> None:
    """Flags of one of LeRobot's programs; with `is_file`, the content of a config file of it."""
    # With this mode W&B writes files on this machine, and sends nothing.
    is_offline = flags.get("wandb.mode") in _OFFLINE
    for key, value in flags.items():
        if key != "wandb.enable" or not is_offline:
            _judge_meaning(check, key, value, is_file=is_file)
    check.data(flags.get("dataset.repo_id", ""), flags.get("dataset.root", ""))
    _judge_environment(check, flags)
    for key, value in flags.items():
        check.argument(program, key, value, is_key_known=is_file or _is_judged(key))
    if path := flags.get("config_path"):
        _judge_config_file(check, program, path, has_output="output_dir" in flags)


def _judge_meaning(check: Checks, key: str, value: str, *, is_file: bool) -> None:
    """What a flag does, whatever lists say of its key."""
    is_granted = f"--{key}={value}" in check.grants.flags
    if names_plugin(key):
        require_literal(key, value)
        check.plugin(value)
    elif names_checkpoint(key):
        require_literal(key, value)
        check.checkpoint(value)
    elif key in ("output_dir", "env.type", "dataset.root", "dataset.repo_id", "config_path"):
        require_literal(key, value)
    if key == "output_dir":
        check.output(value)
    # The model of a simulation's arm is a plain name, and no file or mapping.
    is_name = key.startswith("env.") and value.isidentifier()
    if key.rpartition(".")[2] in _SECTIONS and is_on(value) and value != "{}" and not is_name:
        raise Denied(
            "commands",
            f"--{key}={value[:80]} stands for many settings, which cannot be judged.",
            f"Give each of them, as --{key}.NAME=VALUE.",
        )
    if key.endswith(_UPLOADS) and is_on(value):
        check.upload(f"--{key}={value}", is_granted=is_granted)
    if key == "wandb.mode" and value not in _OFFLINE and not is_file:
        # It may be put to a file that enables W&B.
        check.upload(f"--{key}={value}", is_granted=is_granted)
    if key == "job.target" and value not in ("local", "null", ""):
        check.upload(f"--{key}={value}", is_granted=is_granted)
    if key == "trust_remote_code" and is_on(value) and not is_granted:
        check.plugin(f"--{key}={value}")
    if key in _CAPS and (not is_file or value):
        field, what = _CAPS[key]
        check.cap(field, _number(key, value), what)


def _is_judged(key: str) -> bool:
    """Whether a key is allowed by what it names, so that it need not be listed: a plugin's flag may
    have any prefix."""
    return PLUGIN_KEY in key


def _number(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Denied("commands", f"--{key}={value} is not a number.", "Write digits.")
    return number


def _judge_environment(check: Checks, flags: dict[str, str]) -> None:
    if kind := flags.get("env.type"):
        check.environment(kind)
    for device, kind in devices_of(flags, "env"):
        check.robot(kind, device=device)


def _judge_config_file(check: Checks, program: str, path: str, *, has_output: bool) -> None:
    """A file that is allowed by its place still may not say what a flag may not."""
    check.config_path(path)
    content = _read_config(path)
    flags = flattened(content)
    if "config_path" in flags:
        raise Denied("config_paths", f"{path} names another config file.", "Name that one.")
    if not has_output and not flags.get("output_dir"):
        raise Denied(
            "commands",
            f"{path} does not say where the program writes to.",
            "Set output_dir there, to a folder of the run.",
        )
    for key, value in flags.items():
        refuse_inclusion(key, value)
    judge_flags(check, program, flags, is_file=True)


def _read_config(path: str) -> Any:
    file = Path(path).expanduser()
    file = file / "train_config.json" if file.is_dir() else file
    remedy = "Name the train_config.json of a checkpoint."
    if file.suffix != ".json":
        raise Denied("config_paths", f"{path} is not JSON, and cannot be judged.", remedy)
    try:
        if file.stat().st_size > _LARGEST_CONFIG:
            raise Denied("config_paths", f"{path} is too large to be judged.", remedy)
        return msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise Denied("config_paths", f"{path} cannot be judged: {error}.", remedy) from error


def _judge_lefleet(check: Checks, arguments: Sequence[str]) -> None:
    """LeFleet's own programs, in the forms in which it starts them."""
    match arguments:
        case (
            ["stage", "exec", folder]
            | ["stage", "drive", folder, _]
            | ["cluster", "probe", folder, _]
            | ["controller", "exec", folder, _]
            | ["notify", "exec", folder, _]
            | ["track", "exec", folder, _]
            | ["track", "write", folder, _, _]
            | ["film", "exec", folder, _, _, _, _]
        ):
            # Without rules of its own it finds its own, with what it is asked to do.
            if check.grants.folders:
                check.output(folder)
        case ["device", "probe", name] if name.replace(":", "").isalnum():
            # Looks at the machine and computes one product.
            return
        case ["graphics", "probe"]:
            # Renders an empty scene.
            return
        case ["environment", "probe", *flags]:
            # Makes what an evaluation would make, of the same flags, and runs no episode.
            judge_flags(check, LEFLEET, lerobot_flags(flags))
        case ["serve", checkpoint, "--json", *flags]:
            check.checkpoint(checkpoint)
            for flag in flags:
                _judge_own_flag(check, flag)
        case _:
            _judge_other(check, "lefleet", arguments)


def _judge_own_flag(check: Checks, argument: str) -> None:
    flag = flag_of(argument)
    if flag is None:
        raise Denied("commands", f"the argument {argument!r} is no --key=value.", "Write it so.")
    check.argument("lefleet", *flag, is_key_known=False)


def _judge_other(check: Checks, program: str, arguments: Sequence[str]) -> None:
    rule = rule_of(program, check.constitution.commands)
    positional = rule.positional if rule else ()
    if program == _WORKER:
        positional = (*positional, "*")
    for argument in arguments:
        flag = flag_of(argument)
        if flag is not None and any(
            matches(flag[0], (one,)) for one in (rule.arguments if rule else ())
        ):
            check.argument(program, *flag, is_key_known=False)
        elif not matches(argument, positional):
            raise Denied(
                f"commands.{program}",
                f"{program} may not be started with the argument {argument!r}.",
                f"Add it to commands.{program}.positional in {check.file}.",
            )
