"""The program of a simulated robot: drives its episodes in wall-clock time, and tells of them."""

import logging
import signal
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from threading import Event
from typing import Any

import msgspec
from lerobot.rollout.context import RolloutContext

from lefleet.errors import LeFleetError
from lefleet.robots import LeFleetSimConfig
from lefleet.sim.encode import ACTION_NAMES, FPS
from lefleet.testbed.drive import Tally, connected, run_episode, settings_for
from lefleet.trial.members import Say, take_stdout
from lefleet.trial.messages import EpisodeOver, RobotNews, SentCommand, TrialFailure, TrialWork

_LOG = logging.getLogger(__name__)
_NEWS_EVERY_S = 0.2


class TrialTally(Tally):
    """Also in which state the robot was at each tick."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.states: Counter[str] = Counter()

    def __call__(self) -> None:
        super().__call__()
        self.states[self._engine.status.state.mode.value] += 1


class TrialRobot:
    """A connected robot and its episodes.

    Threads: the control loop drives and counts. `news` only reads what may be read at any time.
    """

    def __init__(self, work: TrialWork, ctx: RolloutContext, say: Say) -> None:
        self._work = work
        self._ctx = ctx
        self._say = say
        self._robot = ctx.hardware.robot_wrapper.inner.inner
        self._engine = ctx.policy.inference
        self._commands: list[SentCommand] = []
        self._earlier_chunks = 0
        self._tally = TrialTally(self._engine)
        self._robot.on_command = self._keep

    def run(self) -> None:
        for number in range(1, self._work.episodes + 1):
            if self._ctx.runtime.shutdown_event.is_set():
                return
            if number > 1:
                self._begin_another()
            driven = run_episode(self._ctx, self._tally, self._work.delay_ms)
            self._say(
                EpisodeOver(
                    robot=self._work.robot,
                    number=number,
                    driven=driven,
                    states=dict(self._tally.states),
                    is_cut=not self._robot.extras.finished,
                    commands=tuple(self._commands),
                )
            )

    def news(self) -> RobotNews:
        status, extras = self._engine.status, self._robot.extras
        return RobotNews(
            robot=self._work.robot,
            state=status.state.mode.value,
            reason=status.state.reason,
            episode=extras.episode + 1,
            progress=round(extras.progress, 3),
            buffer_ms=round(status.queued / FPS * 1000),
            action_age_ms=round(status.action_age_s * 1000),
            round_trip_p95_ms=round(status.p95_round_trip_s * 1000, 1),
            chunks=self._earlier_chunks + len(self._tally.round_trips_ms),
            fallbacks=status.fallbacks,
        )

    def _begin_another(self) -> None:
        self._earlier_chunks += len(self._tally.round_trips_ms)
        self._tally = TrialTally(self._engine)
        self._commands.clear()
        self._robot.new_episode()
        self._engine.reset()

    def _keep(self, action: Mapping[str, float], _: float) -> None:
        values = tuple(action[name] for name in ACTION_NAMES)
        self._commands.append(SentCommand(self._robot.extras.steps, values))


class NewsThread:
    """Tells a robot's news until the `with` block ends, so that its control loop never writes."""

    def __init__(self, robot: TrialRobot, say: Say) -> None:
        self._robot = robot
        self._say = say
        self._end = Event()
        self._thread = threading.Thread(target=self._run, name="news", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        is_over = False
        while not is_over:
            self._say(self._robot.news())
            is_over = self._end.wait(_NEWS_EVERY_S)


def run(work: TrialWork, say: Say, shutdown: Event) -> None:
    """Connect, drive all episodes, disconnect."""
    robot_config = LeFleetSimConfig(task=work.task, seed=work.first_seed)
    inference = settings_for(work.port, work.delay_ms, client_id=work.robot)
    with connected(robot_config, inference, work.checkpoint, shutdown) as ctx:
        robot = TrialRobot(work, ctx, say)
        with NewsThread(robot, say):
            robot.run()


def main() -> int:
    # Ctrl-C in a terminal reaches all its processes; the command decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shutdown = Event()
    signal.signal(signal.SIGTERM, lambda *_: shutdown.set())
    say = take_stdout()
    for line in sys.stdin.buffer:
        work = msgspec.json.decode(line, type=TrialWork)
        logging.basicConfig(
            level=logging.WARNING, format=f"%(asctime)s {work.robot} %(message)s", force=True
        )
        try:
            run(work, say, shutdown)
        except Exception as error:  # noqa: BLE001 - the host is told, whatever it is
            _LOG.exception("the robot gives up")
            problem = error.problem if isinstance(error, LeFleetError) else f"{error}."
            say(TrialFailure(problem=f"{work.robot}: {problem}", remedy="", exit_code=1))
            return 1
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
