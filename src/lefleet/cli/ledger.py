"""ledger: move the ledger of a work folder to a server, or back."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from lefleet.cli.options import OutputOptions
from lefleet.cli.output import print_json, printable
from lefleet.ledger.address import FILE
from lefleet.ledger.copying import KEPT, copy_ledger


@dataclass(frozen=True, kw_only=True)
class LedgerCopyCommand(OutputOptions):
    """Copy a ledger to an empty database, or back to a file, and use the copy: its work folder does
    so from then on. No run of it may be running."""

    source: Annotated[str, Positional, arg(metavar="SRC")]
    """A work folder whose ledger is a file, or the URL that its ledger.json names."""
    destination: Annotated[str, Positional, arg(metavar="DST")]
    """URL of an empty database, without a password, or the work folder."""


LEDGER_COMMANDS: dict[str, type[OutputOptions]] = {"ledger copy": LedgerCopyCommand}


def copy(command: LedgerCopyCommand) -> int:
    """Copy, and say what was copied."""
    made = copy_ledger(command.source, command.destination)
    if command.json:
        print_json(made._asdict())
        return 0
    counts = [f"{count} {table}" for table, count in made.rows.items() if count]
    print(f"Copied and compared {sum(made.rows.values())} rows: {', '.join(counts) or 'none'}.")
    print(f"The ledger is now {printable(made.destination)}.")
    if made.source.endswith(FILE):
        print(f"The file is kept as {KEPT}; remove it when you like.")
    else:
        print("The database is as it was; drop it when you like.")
    return 0
