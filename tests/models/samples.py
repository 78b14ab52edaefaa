"""Requests to a scripted model, as the loop makes them."""

from typing import Any

from lefleet.records import Proposal, ProposalLimits, ProposePlan, ProposeRequest

TASKS = ("push", "pick-place", "door-open")
FALLBACK = Proposal(
    cycle=2,
    action="demonstrations",
    episodes={"push": 10, "pick-place": 10, "door-open": 10},
    source="schedule",
    why="10 more of each task, by the schedule",
)
LIMITS = ProposalLimits(
    episodes=30, floor=5, ceiling=20, tasks=TASKS, actions=("demonstrations", "corrections")
)
EVIDENCE: dict[str, Any] = {
    "tasks": {"push": {"success": 0.9}, "pick-place": {"success": 0.2}},
    "pages": {"pick-place": "The gripper closes too early."},
    "notes": ["cycle 1: promote"],
}


def asking(model: str, **changes: Any) -> ProposeRequest:
    """A request; `changes` are fields of the request or of its plan."""
    mine = {name: changes.pop(name) for name in ProposeRequest.__struct_fields__ if name in changes}
    plan = ProposePlan(**{"model": model, "retries": 0, "timeout_s": 30.0} | changes)
    usual = {"fallback": FALLBACK, "limits": LIMITS, "evidence": EVIDENCE}
    return ProposeRequest(plan=plan, **usual | mine)


def is_within(proposal: Proposal, limits: ProposalLimits = LIMITS) -> bool:
    """Whether a proposal varies only what it may."""
    counts = proposal.episodes
    return (
        proposal.cycle == FALLBACK.cycle
        and proposal.action in limits.actions
        and set(counts) == set(limits.tasks)
        and all(limits.floor <= count <= limits.ceiling for count in counts.values())
        and sum(counts.values()) == limits.episodes
        and proposal.why.isprintable()
        and len(proposal.why) <= 200
    )
