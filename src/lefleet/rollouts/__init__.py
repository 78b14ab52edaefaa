"""Episodes in simulation, many at a time: the one engine behind collecting, judging and improving.

    messages    what a worker is asked and what it answers
    behaviour   who acts and what is learnt from it: policy, expert, or one correcting the other
    policy      a LeRobot checkpoint as a batch of actions
    episode     one world with its actor, its frames and its film
    film        frames to .mp4
    engine      steps a batch of episodes to their ends
    worker      the program of a worker process: batches on stdin, episodes on stdout
    simulate    shares batches among workers and yields finished episodes

Imports `records`, `process` and `sim`; `stages` imports `simulate` and `messages` only. Frames of
kept episodes are written as .npz where the batch says; everything else travels as JSON lines.
"""

from lefleet.rollouts.messages import (
    Act,
    Batch,
    Behaviour,
    Demonstrate,
    Finished,
    Relabel,
    Slot,
    TakeOver,
)
from lefleet.rollouts.simulate import Simulators, default_workers

__all__ = [
    "Act",
    "Batch",
    "Behaviour",
    "Demonstrate",
    "Finished",
    "Relabel",
    "Simulators",
    "Slot",
    "TakeOver",
    "default_workers",
]
