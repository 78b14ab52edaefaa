"""The thread that lets time pass when the control loop does not, logs, and reports."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from lefleet_client.remote import RemotePolicy, RobotReport
from lefleet_client.stream.failsafe import FailSafe, Mode
from lefleet_client.wire import RobotStatus

if TYPE_CHECKING:
    from lefleet_client.stream.stream import ActionStream

_LOG = logging.getLogger(__name__)
_EVERY_S = 0.1
_REPORT_EVERY_S = 1.0
_JOIN_S = 3.0
_CALM = (Mode.CONNECTING, Mode.STREAMING)


class EdgeWatch:
    """Ticks ten times a second; publishes the robot's state each second and when it changes.

    Its thread never calls the policy, which is the worker's: it only reads names that were fixed,
    and uses the policy's node on the network.
    """

    def __init__(
        self,
        stream: "ActionStream",
        policy: RemotePolicy,
        *,
        task: str,
        robot_type: str,
        guarded: Callable[[], tuple[int, int]],
    ) -> None:
        self._stream = stream
        self._policy = policy
        self._task = task
        self._robot_type = robot_type
        self._guarded = guarded
        self._report = RobotReport(policy.node, policy.client_id)
        self._has_failed = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edge watch", daemon=True)

    def start(self) -> None:
        for warning in self._stream.plan.warnings:
            _LOG.warning("%s", warning)
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        if self._thread.ident is None:
            self._report.close()
            return
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            _LOG.warning("the edge watch did not end within %g s", _JOIN_S)

    def _run(self) -> None:
        report_at_s = 0.0
        is_ending = False
        while not is_ending:
            is_ending = self._end.wait(_EVERY_S)
            news = self._stream.tick()
            for state in news:
                _log(state)
            now_s = time.monotonic()
            if news or is_ending or now_s >= report_at_s:
                report_at_s = now_s + _REPORT_EVERY_S
                self._publish(now_s)
        self._report.close()

    def _publish(self, now_s: float) -> None:
        try:
            self._report.publish(self._status(now_s))
        except Exception:  # noqa: BLE001 - time must go on passing
            if not self._has_failed:
                _LOG.exception("the robot's state is not published")
            self._has_failed = True

    def _status(self, now_s: float) -> RobotStatus:
        now, stream, policy = self._stream.status(), self._stream, self._policy
        clamped, refused = self._guarded()
        return RobotStatus(
            client_id=policy.client_id,
            robot_type=self._robot_type,
            task=self._task,
            state=now.state.mode.value,
            state_s=max(0.0, now_s - now.state.since_s),
            reason=now.state.reason,
            paused=now.is_paused,
            service=policy.service,
            server=policy.server,
            digest=stream.served.digest,
            episode_id=now.episode,
            action_age_ms=now.action_age_s * 1000,
            buffer_ms=now.queued / stream.settings.fps * 1000,
            fallbacks=now.fallbacks,
            reconnects=now.state.reconnects,
            round_trip_ms=now.last_round_trip_s * 1000,
            round_trip_p95_ms=now.p95_round_trip_s * 1000,
            image_codec=policy.image_codec,
            executed=now.executed,
            clamped=clamped,
            refused=refused,
            warnings=stream.plan.warnings,
        )


def _log(state: FailSafe) -> None:
    level = logging.INFO if state.mode in _CALM else logging.WARNING
    because = f": {state.reason}" if state.reason else ""
    _LOG.log(logging.ERROR if state.is_dead else level, "%s%s", state.mode.value, because)
