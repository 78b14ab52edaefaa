"""Episodes in simulation, many at a time: the one engine behind collecting, judging and improving.

    messages      what a worker is asked and what it answers
    simulators    shares batches among workers and yields finished episodes
    worker        the program of a worker process: steps batches of episodes to their ends
    episode       one world with who acts in it, what it teaches, and its film
    worlds        the seam between the engine and what it steps
    metaworld     LeFleet's simulation behind that seam
    gym_world     any LeRobot environment behind it
    environments  LeRobot environments by their flags: made, and described
    film          frames to a video
    policy        a LeRobot checkpoint as a batch of actions

Imports `records`, `process`, `experts` and `sim`; `stages` imports `simulators`, `messages` and
`environments` only. Frames of
kept episodes are written as .npz where the batch says; everything else travels as JSON lines.
"""

from lefleet.rollouts.messages import (
    Act,
    Behaviour,
    Demonstrate,
    EnvironmentDescription,
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
    "EnvironmentDescription",
    "EpisodeBatch",
    "Finished",
    "PlannedEpisode",
    "Relabel",
    "Simulators",
    "TakeOver",
    "default_workers",
]
