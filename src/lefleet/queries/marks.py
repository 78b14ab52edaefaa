"""A shape for each state, step and decision. It stands before the word, so that nothing is told by
colour alone."""

from lefleet.queries.run import StepState
from lefleet.queries.status import RunWord

RUN_MARKS: dict[RunWord, str] = {
    "running": "▶",
    "waiting": "◆",
    "interrupted": "‖",
    "finished": "✓",
    "stopped": "■",
    "failed": "✕",
    "denied": "⊘",
    "unreadable": "?",
}
STEP_MARKS: dict[StepState, str] = {
    "done": "✓",
    "now": "▶",
    "next": "○",
    "skipped": "–",
    "failed": "✕",
    "waits": "◆",
}
_DECISIONS = {
    "baseline": "■",
    "promote": "▲",
    "iterate": "●",
    "escalate": "▲▲",
    "rollback": "◆",
    "stop": "■",
}


def decision_mark(decision: str) -> str:
    """Of a decision by its name; a circle for one that is not known."""
    return _DECISIONS.get(decision, "●")
