"""Runs on the screen of a terminal, with the facts of their pages: flow, progress, the evidence of
the last gate, and what they wait for."""

from collections.abc import Iterator
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from lefleet.cli.output import printable
from lefleet.cli.report import shown
from lefleet.ledger import Ledger
from lefleet.queries.cycles import EvidencePath, cycle_detail
from lefleet.queries.marks import STEP_MARKS
from lefleet.queries.run import FlowStep, run_detail
from lefleet.queries.runs import RunReader
from lefleet.queries.status import RunStatus

_STYLES = {"now": "bold", "waits": "bold yellow", "failed": "bold red", "next": "dim"}
_LOOKS = 8
"""Looks of a gate that fit into a line."""


class RunScreen:
    """Draws runs. Remembers the gate of each until the run's next event: to work out its bounds
    takes longer than the rest."""

    def __init__(self, ledger: Ledger, workdir: Path) -> None:
        self._reader = RunReader(lambda: ledger, workdir)
        self._gates: dict[str, tuple[float, list[Text]]] = {}

    def parts(self, run: str) -> Iterator[RenderableType]:
        """One run, line by line and table by table."""
        yield from shown(self._reader.status(run), self._reader.workdir, is_brief=True)
        yield from self.evidence(run)

    def evidence(self, run: str) -> Iterator[Text]:
        """The flow of the current cycle, and the newest gate."""
        detail = run_detail(self._reader, run)
        if detail.flow:
            yield _flow(detail.flow)
        changed_at, gate = self._gates.get(run, (0.0, []))
        if changed_at != detail.card.changed_at:
            gate = self._gate(detail.status)
            self._gates[run] = detail.card.changed_at, gate
        yield from gate

    def _gate(self, status: RunStatus) -> list[Text]:
        """The newest one; none where there was none."""
        for cycle in reversed(status.cycles):
            if "gate" not in cycle.stages:
                continue
            found = cycle_detail(self._reader, status.id, cycle.index)
            lines = [Text(f"Gate:       cycle {cycle.index}: {printable(found.verdict)}")]
            if found.evidence is not None and found.evidence.pairs:
                lines.append(Text(f"Evidence:   {evidence_text(found.evidence)}"))
            if found.needed:
                lines.append(Text(f"            {printable(found.needed)}"))
            return lines
        return []


def evidence_text(evidence: EvidencePath) -> str:
    """The path of a comparison against its bounds, in a line.

    won minus lost: 3 → 4 → 7 → 10; better from +10, worse from -10 (20 of at most 60 pairs)
    """
    used = f"{evidence.pairs[-1]} of at most {evidence.max_pairs} pairs"
    if evidence.metric == "success":
        path = _path([f"{one:+.0f}" for one in evidence.value])
        better, worse = evidence.better[-1], evidence.worse[-1]
        return (
            f"won minus lost: {path}; better from {better:+.0f}, worse from {worse:+.0f} ({used})"
        )
    path = _path([f"{10**one:.3g}" for one in evidence.value])
    bound = f"{10 ** evidence.better[-1]:.3g}"
    against = f"{10 ** evidence.value_worse[-1]:.3g} of {10 ** evidence.worse[-1]:.3g}"
    return f"e-value: {path}; better from {bound}; for worse: {against} ({used})"


def _path(values: list[str]) -> str:
    last = values[-_LOOKS:]
    return " → ".join(["…", *last] if len(values) > _LOOKS else last)


def _flow(steps: tuple[FlowStep, ...]) -> Text:
    """propose → collect → train → …, each with a mark: done, now, next."""
    line = Text("Flow:       ")
    for number, step in enumerate(steps):
        if number:
            line.append(" → ", "dim")
        took = f" {step.detail}" if step.state == "done" and step.detail else ""
        far = f" {step.progress:.0%}" if step.progress is not None else ""
        words = f"{STEP_MARKS[step.state]} {step.name}{took}{far}"
        line.append(printable(words), _STYLES.get(step.state, ""))
    return line
