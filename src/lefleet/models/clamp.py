"""Any proposal to one within its limits, as pure functions."""

import msgspec

from lefleet.records import Proposal, ProposalLimits

WHY_LENGTH = 200


def obstacle(proposal: Proposal, limits: ProposalLimits) -> str:
    """Why a proposal cannot be used, not even with other numbers; empty where it can."""
    if proposal.action not in limits.actions:
        return f"the action {one_line(str(proposal.action), 40)!r} is not allowed"
    unknown = [task for task in proposal.episodes if task not in limits.tasks]
    if unknown:
        return f"the task {one_line(unknown[0], 40)!r} is not one of the run's"
    return ""


def clamp(proposal: Proposal, limits: ProposalLimits) -> Proposal:
    """The usable `proposal` with numbers within `limits`, and a reason of one printable line.

    Tasks that it does not name get the floor. Where all tasks together exceed the limit, what lies
    above the floor shrinks in proportion. A limit that is smaller than all floors lowers them.
    """
    episodes = {}
    if limits.tasks:
        floor = min(limits.floor, limits.ceiling, limits.episodes // len(limits.tasks))
        asked = {task: proposal.episodes.get(task, 0) for task in limits.tasks}
        above = {task: min(max(n, floor), limits.ceiling) - floor for task, n in asked.items()}
        room = limits.episodes - floor * len(limits.tasks)
        episodes = {task: floor + extra for task, extra in _shrunk(above, room).items()}
    return msgspec.structs.replace(proposal, episodes=episodes, why=one_line(proposal.why))


def _shrunk(amounts: dict[str, int], limit: int) -> dict[str, int]:
    """In proportion, so that their sum is `limit` at most; the largest remainders are rounded up,
    of equal ones the first."""
    total = sum(amounts.values())
    if total <= limit:
        return amounts
    shrunk = {name: amount * limit // total for name, amount in amounts.items()}
    by_remainder = sorted(amounts, key=lambda name: -(amounts[name] * limit % total))
    for name in by_remainder[: limit - sum(shrunk.values())]:
        shrunk[name] += 1
    return shrunk


def one_line(text: str, length: int = WHY_LENGTH) -> str:
    """`text` without control and other invisible characters, on one line, cut to `length`."""
    # Cut first: a text of any length costs no more than a short one.
    shown = "".join(char if char.isprintable() else " " for char in text[: 4 * length])
    words = " ".join(shown.split())
    return words if len(words) <= length else words[: length - 1].rstrip() + "…"
