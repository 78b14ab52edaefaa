"""Episodes of a rollout: where one begins and ends, and whether it succeeded."""

import getpass
import threading
from collections.abc import Callable
from typing import Any

from lerobot.robots import Robot
from lerobot.rollout.configs import EpisodicStrategyConfig
from lerobot.rollout.context import RolloutContext
from lerobot.rollout.inference import InferenceEngine
from lerobot.rollout.strategies.episodic import EpisodicStrategy
from lerobot.utils.keyboard_input import apply_recording_control, create_key_listener

from lefleet.recording import Outcome

_CONTROLS = {
    **dict.fromkeys(("right", "n"), "right"),
    **dict.fromkeys(("left", "r"), "left"),
    **dict.fromkeys(("esc", "q"), "esc"),
}
"""LeRobot's own: end the episode, record it again, stop."""
_KEYS_HELP = "s=success, f=failure, u=undo the label, n=next, r=record again, q=quit"


class EpisodeLabels:
    """What is known of the present episode's outcome.

    A person's key wins over what a simulation says. Keys come from the keyboard's thread, and the
    recorder reads on the control loop's: one lock guards the key.
    """

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._lock = threading.Lock()
        self._key: bool | None = None

    def press(self, success: bool | None) -> None:
        with self._lock:
            self._key = success

    def begin(self) -> None:
        """A new episode: no key was pressed yet, and a simulated scene is set up anew."""
        self.press(None)
        extras = getattr(self._robot, "extras", None)
        if extras is not None and extras.steps:
            self._robot.new_episode()

    @property
    def is_finished(self) -> bool:
        """Whether a simulation says that the episode is over."""
        return bool(getattr(getattr(self._robot, "extras", None), "finished", False))

    def outcome(self) -> Outcome | None:
        """What the recorder writes down for the episode; None if nobody said anything."""
        extras = getattr(self._robot, "extras", None)
        progress = None if extras is None else float(extras.progress)
        with self._lock:
            if self._key is not None:
                who = getpass.getuser()
                return Outcome(success=self._key, progress=progress, source="key", who=who)
        if extras is None:
            return None
        return Outcome(success=bool(extras.success), progress=progress, source="environment")


class EpisodeEngine(InferenceEngine):
    """An engine that says when an episode begins: strategies reset it then."""

    def __init__(self, inner: InferenceEngine, on_reset: Callable[[], None]) -> None:
        self.inner = inner
        self._on_reset = on_reset

    def start(self) -> None:
        self.inner.start()

    def stop(self) -> None:
        self.inner.stop()

    def reset(self) -> None:
        self._on_reset()
        self.inner.reset()

    def pause(self) -> None:
        self.inner.pause()

    def resume(self) -> None:
        self.inner.resume()

    def notify_observation(self, obs: dict[str, Any]) -> None:
        self.inner.notify_observation(obs)

    def get_action(self, obs_frame: dict[str, Any] | None) -> Any:
        return self.inner.get_action(obs_frame)

    @property
    def ready(self) -> bool:
        return self.inner.ready

    @property
    def failed(self) -> bool:
        return self.inner.failed


class LabelledEpisodes(EpisodicStrategy):
    """LeRobot's recording in episodes, with keys for success and failure.

    `s` and `f` label the episode and end it; `u` takes the label back. In a simulation an episode
    also ends when the scene says so.
    """

    def __init__(self, config: EpisodicStrategyConfig, labels: EpisodeLabels) -> None:
        super().__init__(config)
        self._labels = labels

    def setup(self, ctx: RolloutContext) -> None:
        self._init_engine(ctx)
        self._events = dict.fromkeys(("exit_early", "rerecord_episode", "stop_recording"), False)
        self._listener = create_key_listener(self._pressed, controls_help=_KEYS_HELP)

    def _pressed(self, name: str) -> None:
        """Runs on the keyboard's thread."""
        key = name.lower()
        if key in _CONTROLS:
            apply_recording_control(_CONTROLS[key], self._events)
        elif key == "u":
            self._labels.press(None)
        elif key in ("s", "f"):
            self._labels.press(key == "s")
            apply_recording_control("right", self._events)

    def _process_observation_and_notify(self, processors: Any, obs_raw: dict[str, Any]) -> Any:
        if self._labels.is_finished:
            self._events["exit_early"] = True
        return super()._process_observation_and_notify(processors, obs_raw)
