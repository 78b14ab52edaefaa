"""Episodes in simulation, many at a time: the one engine behind collecting, judging and improving.

    messages     what a worker is asked and what it answers
    simulators   shares batches among workers and yields finished episodes
    worker       the program of a worker process: steps batches of episodes to their ends
    episode      one world with who acts in it, what it teaches, and its film
    policy       a LeRobot checkpoint as a batch of actions

Imports `records`, `process` and `sim`; `stages` imports `simulators` and `messages` only. Frames of
kept episodes are written as .npz where the batch says; everything else travels as JSON lines.
"""

from lefleet.rollouts.messages import (
    Act,
    Behaviour,
    Demonstrate,
    EpisodeBatch,
    Finished,
    PlannedEpisode,
    Relabel,
    TakeOver,
)
from lefleet.rollouts.simulators import Simulators, default_workers

__all__ = [
    "Act",
    "Behaviour",
    "Demonstrate",
    "EpisodeBatch",
    "Finished",
    "PlannedEpisode",
    "Relabel",
    "Simulators",
    "TakeOver",
    "default_workers",
]
