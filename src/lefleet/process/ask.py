"""Ask a program of our own for a report: the last line that it prints, as JSON.

For what must not happen in the calling process: heavy imports, and what may hang or crash.
"""

import subprocess
from collections.abc import Sequence

import msgspec

from lefleet.process.launch import exit_words, launch, oom_kills, stop


class NoReport(Exception):
    """The program exited, or was killed, without a report; the text says how."""


def ask[T](argv: Sequence[str], kind: type[T], patience_s: float) -> T:
    """The report of a new program; NoReport where it has none after `patience_s`."""
    before = oom_kills()
    with launch(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, may_fork=False) as child:
        try:
            said, complained = child.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            raise NoReport(f"did not answer within {patience_s:g} s") from None
        finally:
            stop(child)
    lines = said.decode(errors="replace").splitlines()
    try:
        return msgspec.json.decode(lines[-1] if lines else "", type=kind)
    except msgspec.MsgspecError:
        words = [line.strip() for line in complained.decode(errors="replace").splitlines()]
        last = next((f": {line}" for line in reversed(words) if line), "")
        raise NoReport(f"{exit_words(child.returncode, before)}{last}") from None
