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


def has_choice(limits: ProposalLimits) -> bool:
    """Whether two proposals within `limits` can differ in more than words."""
    spare = limits.episodes - limits.floor * len(limits.tasks)
    return len(limits.actions) > 1 or (len(limits.tasks) > 1 and spare > 0)


def clamp(proposal: Proposal, limits: ProposalLimits) -> Proposal:
    """The usable `proposal` with numbers within `limits`, and a reason of one printable line.

    A proposal divides the episodes; it makes them neither more nor fewer. What it asks for above
    the floor of each task shrinks or grows in proportion until the sum is right, up to the ceiling.
    Tasks that it does not name get the floor. A sum that is smaller than all floors lowers them.
    """
    episodes = {}
    if limits.tasks:
        floor = min(limits.floor, limits.ceiling, limits.episodes // len(limits.tasks))
        asked = {task: proposal.episodes.get(task, 0) for task in limits.tasks}
        above = {task: min(max(n, floor), limits.ceiling) - floor for task, n in asked.items()}
        room = limits.episodes - floor * len(limits.tasks)
        shares = _divided(room, above, limits.ceiling - floor)
        episodes = {task: floor + shares[task] for task in limits.tasks}
    return msgspec.structs.replace(proposal, episodes=episodes, why=one_line(proposal.why))


def _divided(total: int, weights: dict[str, int], most: int) -> dict[str, int]:
    """`total` in proportion to `weights`, evenly where all are 0, and none above `most`.

    The largest remainders are rounded up, of equal ones the first.
    """
    shares: dict[str, int] = {}
    left = dict(weights)
    while left:
        rest = total - sum(shares.values())
        if not sum(left.values()):
            left = dict.fromkeys(left, 1)
        whole = sum(left.values())
        full = [name for name, weight in left.items() if rest * weight >= most * whole]
        if not full:
            shares |= {name: rest * weight // whole for name, weight in left.items()}
            by_remainder = sorted(left, key=lambda name: -(rest * left[name] % whole))
            for name in by_remainder[: total - sum(shares.values())]:
                shares[name] += 1
            break
        shares |= dict.fromkeys(full, most)
        left = {name: weight for name, weight in left.items() if name not in full}
    return shares


def one_line(text: str, length: int = WHY_LENGTH) -> str:
    """`text` without control and other invisible characters, on one line, cut to `length`."""
    # Cut first: a text of any length costs no more than a short one.
    shown = "".join(char if char.isprintable() else " " for char in text[: 4 * length])
    words = " ".join(shown.split())
    return words if len(words) <= length else words[: length - 1].rstrip() + "…"
