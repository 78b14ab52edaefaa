"""Records in forks that are killed: LeRobot is imported once, and each fork takes a fraction of a
second.

A line on stdin is a job: root, mode, episodes, and the line of code to be killed at, counted from
the begin of the last episode's `save_episode`; 0 is never. Stdout tells of each fork its pid, the
episodes that were saved, the lines of code that saving the last one took, and its end.
"""

import json
import os
import signal
import sys
from itertools import count
from pathlib import Path

import lerobot.datasets

import lefleet.recording.dataset
from lefleet.recording import Outcome
from lefleet_client.stream import Executed
from lefleet_client.stream.queue import Origin
from tests.recording import frames

_TRACED = tuple(str(Path(one.__file__).parent) for one in (lerobot.datasets, lefleet.recording))


class KillAtLine:
    """Kills this process at the nth line of LeRobot's or our code."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.lines = 0

    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(_TRACED):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def record(root: Path, mode: str, episodes: int, kill_at: int) -> None:
    say(pid=os.getpid())
    dataset = frames.create(root, mode)
    for episode in range(episodes) if episodes else count():
        frame_numbers = count()

        def executed(episode=episode, numbers=frame_numbers):
            origin = Origin(0.0, f"session {episode}", next(numbers), episode, "digest", "server")
            return Executed(origin, 0, 0.1)

        dataset.attach(executed=executed, outcome=lambda episode=episode: outcome_of(episode))
        frames.add_frames(dataset, episode, mode)
        tracer = KillAtLine(kill_at)
        if episode == episodes - 1:
            sys.settrace(tracer)
        dataset.save_episode()
        sys.settrace(None)
        assert not dataset.ended, dataset.ended
        say(saved=episode + 1, lines=tracer.lines)
    os._exit(0)


def outcome_of(episode: int) -> Outcome:
    return Outcome(success=episode % 2 == 0, source="environment", note=f"episode {episode}")


def say(**what) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            record(Path(job["root"]), job["mode"], job["episodes"], job["kill_at"])
        _, status = os.waitpid(child, 0)
        say(exit=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
