"""Episodes of a rollout: where one begins and ends, and whether it succeeded."""

import getpass
import logging
import threading
from collections.abc import Callable
from typing import Any

from lerobot.rollout.configs import EpisodicStrategyConfig
from lerobot.rollout.context import RolloutContext
from lerobot.rollout.inference import InferenceEngine
from lerobot.rollout.strategies.dagger import DAggerPhase, DAggerStrategy
from lerobot.rollout.strategies.episodic import EpisodicStrategy
from lerobot.utils.keyboard_input import apply_recording_control, create_key_listener

from lefleet.edge.guard import GuardedRobot
from lefleet.errors import LeFleetError
from lefleet.recording import Outcome, RecordedDataset, undo_label

_LOG = logging.getLogger(__name__)
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
    recorder reads on the control loop's: one lock guards the key and the number of the episode that
    was saved with one.
    """

    def __init__(
        self, robot: GuardedRobot, dataset: RecordedDataset | None, *, is_episodic: bool
    ) -> None:
        self._robot = robot
        self._dataset = dataset
        self._is_episodic = is_episodic
        self._who = _user()
        self._lock = threading.Lock()
        self._key: bool | None = None
        self._saved: int | None = None
        self._ended_as: Any = None
        """The extras of a simulated robot when the episode ended."""

    def press(self, success: bool) -> None:
        with self._lock:
            self._key = success
        _LOG.info("The episode is labelled a %s.", "success" if success else "failure")

    def undo(self) -> None:
        """Take back the key of this episode; without one, that of the episode before."""
        with self._lock:
            is_pressed, self._key = self._key is not None, None
            saved, self._saved = self._saved, None if not is_pressed else self._saved
        if is_pressed:
            _LOG.info("The label is taken back.")
        elif saved is not None and self._dataset is not None:
            try:
                undo_label(self._dataset.root, "key", self._who, episode=saved)
            except (OSError, LeFleetError) as error:
                _LOG.warning("The label of episode %d is not taken back: %s", saved, error)
            else:
                _LOG.info("The label of episode %d is taken back.", saved)

    def begin(self) -> None:
        """The policy starts afresh: no key was pressed yet, and a simulated scene is set up anew.

        Where a policy also starts afresh within an episode, as after a correction, a scene that is
        not finished goes on.
        """
        with self._lock:
            self._key = None
        self._ended_as = None
        extras = getattr(self._robot, "extras", None)
        if extras is not None and (extras.steps if self._is_episodic else extras.finished):
            self._robot.new_episode()

    def end(self) -> None:
        """The policy drives no more in this episode: what a simulation says now is its outcome."""
        self._robot.halt()
        self._ended_as = getattr(self._robot, "extras", None)

    @property
    def is_finished(self) -> bool:
        """Whether a simulation says that the episode is over."""
        return bool(getattr(getattr(self._robot, "extras", None), "finished", False))

    def outcome(self) -> Outcome | None:
        """What the recorder writes down for the episode that it saves; None if nothing is known.

        Of an episode that was cut off, a simulation does not know whether it would have succeeded.
        """
        extras = self._ended_as or getattr(self._robot, "extras", None)
        progress = None if extras is None else float(extras.progress)
        with self._lock:
            key, self._saved = self._key, None
            if key is not None:
                # Not "if self._dataset": a dataset without frames counts as False.
                self._saved = None if self._dataset is None else self._dataset.meta.total_episodes
                return Outcome(success=key, progress=progress, source="key", who=self._who)
        if extras is None:
            return None
        success = bool(extras.success) if extras.finished else None
        return Outcome(success=success, progress=progress, source="environment")


class EpisodeEngine(InferenceEngine):
    """An engine that says when an episode begins: strategies reset it then.

    Whenever the policy stops driving, joints that move by velocity are stopped first: LeRobot's
    strategies then send nothing for a while, or only positions.
    """

    def __init__(
        self, inner: InferenceEngine, robot: GuardedRobot, on_reset: Callable[[], None]
    ) -> None:
        self.inner = inner
        self._robot = robot
        self._on_reset = on_reset

    def start(self) -> None:
        self.inner.start()

    def stop(self) -> None:
        self.halt()
        self.inner.stop()

    def reset(self) -> None:
        self.halt()
        self._on_reset()
        self.inner.reset()

    def pause(self) -> None:
        self.halt()
        self.inner.pause()

    def halt(self) -> None:
        try:
            self._robot.halt()
        except Exception:  # noqa: BLE001 - of a driver; the engine must stop all the same
            _LOG.exception("The robot could not be told to stop.")

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
            self._labels.undo()
        elif key in ("s", "f"):
            self._labels.press(key == "s")
            self._events["exit_early"] = True

    def _policy_loop(self, **arguments: Any) -> None:
        # A key that was pressed while the last episode was saved must not end this one.
        self._events["exit_early"] = self._events["stop_recording"]
        super()._policy_loop(**arguments)
        # The episode is saved only after the phase in which the scene is reset.
        self._labels.end()

    def _process_observation_and_notify(self, processors: Any, obs_raw: dict[str, Any]) -> Any:
        if self._labels.is_finished:
            self._events["exit_early"] = True
        return super()._process_observation_and_notify(processors, obs_raw)


class StandingDAgger(DAggerStrategy):
    """LeRobot's DAgger, in which a paused robot stands still.

    LeRobot sends the last action again at every paused tick, and a velocity would go on.
    """

    def _apply_transition(self, *transition: Any) -> None:
        _, new_phase, _, _, ctx, last_action = transition
        if new_phase is DAggerPhase.PAUSED and last_action:
            # The dict that is sent again.
            last_action.update({name: 0.0 for name in last_action if name.endswith(".vel")})
            ctx.hardware.robot_wrapper.send_action(last_action)
        scene = getattr(ctx.hardware.robot_wrapper.inner, "extras", None)
        if new_phase is DAggerPhase.CORRECTING and scene is not None and scene.finished:
            _LOG.warning("The scene's episode is over: nothing moves until the policy resumes.")
        super()._apply_transition(*transition)


def _user() -> str:
    """Who presses the keys; empty in a container without users."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
