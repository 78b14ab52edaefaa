"""constitution: whether rules are valid, what they allow, what differs, and a copy to edit."""

import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.text import Text
from tyro.conf import Positional, arg

from lefleet.cli.options import WorkdirOptions
from lefleet.cli.output import print_json, printable
from lefleet.cli.parse import absolute
from lefleet.constitution import (
    ConstitutionSource,
    Grants,
    Rules,
    find,
    packaged,
    restored,
    rules_for,
    rules_for_grants,
)
from lefleet.constitution.schema import DEFAULT, NAME, packaged_text, read
from lefleet.constitution.text import differences, explain
from lefleet.errors import BadInput
from lefleet.ledger import read_ledger

_PACKAGED = "default"


@dataclass(frozen=True, kw_only=True)
class ConstitutionOptions(WorkdirOptions):
    """All of them have these."""


@dataclass(frozen=True, kw_only=True)
class ConstitutionCheckCommand(ConstitutionOptions):
    """Check a constitution. With --config, check also whether it allows that run: exit code 4 if
    not."""

    file: Annotated[str, Positional, arg(metavar="[FILE]")] = ""
    """YAML file. Default: that of the work folder, else the one that comes with LeFleet."""
    config: Annotated[Path | None, arg(aliases=["-c"])] = None
    """Config file of a run."""


@dataclass(frozen=True, kw_only=True)
class ConstitutionExplainCommand(ConstitutionOptions):
    """Say in plain words what rules allow."""

    what: Annotated[str, Positional, arg(metavar="[FILE|RUN]")] = ""
    """A file, a run (the rules that it keeps to), or default (those that come with LeFleet).
    Default: those of the work folder."""


@dataclass(frozen=True, kw_only=True)
class ConstitutionDiffCommand(ConstitutionOptions):
    """Say in plain words what B allows that A does not, and what it no longer allows."""

    a: Annotated[str, Positional, arg(metavar="A")]
    """A file, a run, or default."""
    b: Annotated[str, Positional, arg(metavar="B")]
    """A file, a run, or default."""


@dataclass(frozen=True, kw_only=True)
class ConstitutionInitCommand(ConstitutionOptions):
    """Write constitution.yaml to the work folder: a copy of the rules that come with LeFleet, to be
    edited."""


CONSTITUTION_COMMANDS: dict[str, type[ConstitutionOptions]] = {
    "constitution check": ConstitutionCheckCommand,
    "constitution explain": ConstitutionExplainCommand,
    "constitution diff": ConstitutionDiffCommand,
    "constitution init": ConstitutionInitCommand,
}


def run_constitution(command: ConstitutionOptions) -> int:
    """Exit code 2: the file is wrong. 4: it does not allow the run."""
    workdir = absolute(command.workdir, "workdir")
    match command:
        case ConstitutionCheckCommand():
            return _check(command, workdir)
        case ConstitutionExplainCommand():
            return _explain(command, workdir)
        case ConstitutionDiffCommand():
            return _diff(command, workdir)
        case ConstitutionInitCommand():
            return _init(command, workdir)
        case _:
            raise AssertionError(f"no function runs {command}")


def _check(command: ConstitutionCheckCommand, workdir: Path) -> int:
    named, run = command.file, ""
    config = None
    if command.config is not None:
        from lefleet.loop.config import load_config

        config = load_config(command.config)
        named, run = named or config.constitution, config.name
    source = find(workdir, named)
    if config is None:
        rules = rules_for_grants(source, Grants())
    else:
        rules = rules_for(source, config, workdir)
        rules.check_config(config)
    where = source.path or DEFAULT
    if command.json:
        print_json({"source": source.path, "run": run, "digest": rules.digest, "allowed": True})
        return 0
    print(f"{where} is valid." if not run else f"{where} is valid and allows {run}.")
    return 0


def _explain(command: ConstitutionExplainCommand, workdir: Path) -> int:
    rules = _rules(command.what, workdir)
    lines = explain(rules)
    if command.json:
        print_json(
            {"digest": rules.digest, "rules": rules, "lines": [one._asdict() for one in lines]}
        )
        return 0
    from lefleet.cli.display import console, table

    out, shown = console(), table("rule", "what it says")
    for line in lines:
        shown.add_row(line.field, Text(printable(line.words), overflow="fold"))
    out.print(shown)
    print("How to change it: docs/constitution.md")
    return 0


def _diff(command: ConstitutionDiffCommand, workdir: Path) -> int:
    found = differences(_rules(command.a, workdir), _rules(command.b, workdir))
    if command.json:
        print_json([one._asdict() for one in found])
        return 0
    if not found:
        print("They allow the same.")
    for one in found:
        print(printable(f"{'+' if one.is_looser else '-'} {one.field}: {one.words}"))
    return 0


def _init(command: ConstitutionInitCommand, workdir: Path) -> int:
    path = workdir / NAME
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(packaged_text())
    except FileExistsError:
        raise BadInput(f"{path} exists.", "Edit it, or name another --workdir.") from None
    except OSError as error:
        raise BadInput(
            f"workdir: {path} cannot be written: {error.strerror}.", "Name another --workdir."
        ) from error
    if command.json:
        print_json({"file": path})
        return 0
    print(f"{path} is written. Edit it, then check it: lefleet constitution check")
    print(
        "Runs keep the rules that they began with, and ask for approval of a change.",
        file=sys.stderr,
    )
    return 0


def _rules(what: str, workdir: Path) -> Rules:
    """The rules of a file, of a run, of LeFleet, or of the work folder."""
    if not what:
        return rules_for_grants(find(workdir), Grants())
    path = Path(what).expanduser()
    if path.is_file():
        return rules_for_grants(ConstitutionSource(str(path), read(path)), Grants())
    if what == _PACKAGED:
        return rules_for_grants(ConstitutionSource("", packaged()), Grants())
    with closing(read_ledger(workdir)) as ledger:
        row, names = ledger.run(what), ", ".join(one.id for one in ledger.runs())
    if row is None:
        raise BadInput(
            f"{what} is neither a file nor a run in {workdir}.",
            f"Runs there: {names}." if names else "Name a file, or default.",
        )
    if row.constitution is None:
        raise BadInput(f"run: {what} was begun before runs kept their rules.", "Name a file.")
    return restored(row.constitution)
