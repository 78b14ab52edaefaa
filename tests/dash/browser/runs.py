"""A work folder as after a night: runs that finished, failed, and wait for a person."""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from lefleet.records import ApprovalPlan, Budgets, DecidePlan
from tests.gates import Stages, run_of_two_cycles
from tests.loop.states import config
from tests.recording.frames import create, frame_of
from tests.waiting import Stuck, Waiting

EVIL = "<img src=x onerror='window.pwned=1'><script>window.pwned=1</script>"
"""Text that must never be more than text, wherever it is stored."""
NIGHT = (
    *("--name=night", "--tasks=[push, door-open]", "--collect.episodes_per_task=[2, 8]"),
    *("--ladder=[{name: small-act, steps: 600}]", "--evaluate.episodes_per_task=4"),
    *("--gate.max_pairs=40", "--budgets.cycles=2", "--approvals.promote=human"),
)
"""Its second cycle is better than its first, and waits for a person."""
BROKEN = (
    *("--name=broken", "--tasks=[door-open]", "--collect.episodes_per_task=[1]"),
    *("--ladder=[{name: wrong, steps: 20, policy: {chunk_size: many}}]", "--max_attempts=1"),
    "--budgets.cycles=1",
)
"""LeRobot refuses its policy."""


def fill(folder: Path, made: Stages) -> None:
    """`runs` and `datasets`, and a copy of both for those who only look."""
    here = folder / "here"
    demo(here / "runs", *BROKEN, ends_with=1)
    demo(here / "runs", *NIGHT, ends_with=3)
    run_of_two_cycles(here / "runs", made, "iterate", "unsure")
    wait(here / "runs")
    record(here / "datasets" / "kitchen")
    shutil.copytree(here, folder / "copy")


def demo(workdir: Path, *flags: str, ends_with: int) -> None:
    """A real run."""
    arguments = [sys.executable, "-m", "lefleet", "demo", "--workdir", str(workdir), *flags]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == ends_with, done.stdout + done.stderr[-2000:]


def wait(workdir: Path) -> None:
    """Two more that ask a person: one whether to promote, one whether to use the next rung."""
    promoting = config(
        name="shadow", approvals=ApprovalPlan(promote="human"), budgets=Budgets(cycles=2)
    )
    escalating = config(
        name="stuck",
        approvals=ApprovalPlan(escalate="human"),
        budgets=Budgets(cycles=5),
        decide=DecidePlan(escalate_after=2),
    )
    for waiting in (Waiting(workdir, promoting), Stuck(workdir, escalating)):
        with closing(waiting.ledger):
            waiting.control()
            assert waiting.state == "waiting"


def record(root: Path) -> None:
    """Three short episodes with a camera; the task of the last one is a trap."""
    recorded = create(root, "streaming")
    for episode, task in enumerate(("open the door", "open the door", EVIL)):
        for number in range(12):
            recorded.add_frame({**frame_of(episode, number, "streaming"), "task": task})
        recorded.save_episode()
    recorded.finalize()
