"""The 50 MetaWorld tasks by name, and the sets that people ask for."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from lefleet.errors import BadInput


class Task(NamedTuple):
    """One MetaWorld task.

    `horizon` is where an episode is cut off: about twice the scripted expert's usual length for
    the slow tasks, 150 steps for all others.
    """

    name: str
    instruction: str
    horizon: int = 150

    @property
    def metaworld_id(self) -> str:
        return f"{self.name}-v3"


_TASKS = (
    Task("assembly", "put the ring over the peg"),
    Task("basketball", "drop the ball into the basket"),
    Task("bin-picking", "move the block into the other bin", 300),
    Task("box-close", "put the lid onto the box", 250),
    Task("button-press-topdown", "press the button from above"),
    Task("button-press-topdown-wall", "press the button behind the wall from above"),
    Task("button-press", "press the button from the front"),
    Task("button-press-wall", "reach over the wall and press the button"),
    Task("coffee-button", "start the coffee machine with its button"),
    Task("coffee-pull", "pull the mug away from the coffee machine"),
    Task("coffee-push", "push the mug under the coffee machine"),
    Task("dial-turn", "turn the dial half round"),
    Task("disassemble", "take the ring off the peg", 250),
    Task("door-close", "close the door"),
    Task("door-lock", "lock the door"),
    Task("door-open", "open the door"),
    Task("door-unlock", "unlock the door"),
    Task("hand-insert", "put the hand into the hole"),
    Task("drawer-close", "close the drawer"),
    Task("drawer-open", "open the drawer"),
    Task("faucet-open", "turn the faucet on"),
    Task("faucet-close", "turn the faucet off"),
    Task("hammer", "drive the nail in with the hammer"),
    Task("handle-press-side", "press the handle down from the side"),
    Task("handle-press", "press the handle down"),
    Task("handle-pull-side", "pull the handle up from the side"),
    Task("handle-pull", "pull the handle up"),
    Task("lever-pull", "pull the lever up"),
    Task("peg-insert-side", "put the peg into the hole in the side", 250),
    Task("pick-place-wall", "carry the puck over the wall to the goal"),
    Task("pick-out-of-hole", "lift the puck out of the hole"),
    Task("reach", "move the hand to the goal"),
    Task("push-back", "push the puck back to the goal", 400),
    Task("push", "push the puck to the goal"),
    Task("pick-place", "carry the puck to the goal"),
    Task("plate-slide", "slide the plate into the cabinet"),
    Task("plate-slide-side", "slide the plate sideways into the cabinet"),
    Task("plate-slide-back", "slide the plate out of the cabinet"),
    Task("plate-slide-back-side", "slide the plate sideways out of the cabinet"),
    Task("peg-unplug-side", "pull the peg out of the side"),
    Task("soccer", "kick the ball into the goal", 250),
    Task("stick-push", "push the box with the stick"),
    Task("stick-pull", "pull the box with the stick", 400),
    Task("push-wall", "push the puck round the wall to the goal"),
    Task("reach-wall", "move the hand round the wall to the goal"),
    Task("shelf-place", "put the block onto the shelf"),
    Task("sweep-into", "sweep the block into the hole"),
    Task("sweep", "sweep the block off the table"),
    Task("window-open", "open the window"),
    Task("window-close", "close the window"),
)

TASKS: dict[str, Task] = {task.name: task for task in sorted(_TASKS)}
"""Every task by name, in alphabetical order; a task's position is its column in the one-hot."""

TASK_SETS: dict[str, tuple[str, ...]] = {
    "easy3": ("push", "pick-place", "door-open"),
    "mt10": (
        "reach",
        "push",
        "pick-place",
        "door-open",
        "drawer-open",
        "drawer-close",
        "button-press-topdown",
        "peg-insert-side",
        "window-open",
        "window-close",
    ),
    "all": tuple(TASKS),
}

BY_INSTRUCTION: dict[str, str] = {task.instruction: task.name for task in TASKS.values()}


def resolve_tasks(names: Iterable[str], elsewhere: str = "") -> tuple[str, ...]:
    """Expand task sets, accept `push-v3` for `push`, drop repeats; unknown names are BadInput, with
    `elsewhere` as what to do for a task that is not MetaWorld's."""
    resolved: dict[str, None] = {}
    for name in names:
        for member in TASK_SETS.get(name.lower(), (name.removesuffix("-v3"),)):
            if member not in TASKS:
                raise _unknown(name, elsewhere)
            resolved[member] = None
    if not resolved:
        raise BadInput("tasks: none given.", f"Name a task or a set: {', '.join(TASK_SETS)}.")
    return tuple(resolved)


def _unknown(name: str, elsewhere: str) -> BadInput:
    near = difflib.get_close_matches(name, [*TASKS, *TASK_SETS], n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Sets: {', '.join(TASK_SETS)}."
    return BadInput(
        f"tasks: no MetaWorld task or task set is called {name!r}.", f"{hint} {elsewhere}".strip()
    )
