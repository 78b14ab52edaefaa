"""The thread that asks the server: one request at a time, always with the newest observation."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from lefleet_client.remote import (
    BadObservation,
    ConnectionNotice,
    Refused,
    RemoteError,
    RemotePolicy,
    Replaced,
    SessionLost,
    WrongModel,
    example_observation,
)
from lefleet_client.remote.connection import log_notice
from lefleet_client.remote.machine import LONGEST_BACKOFF_S
from lefleet_client.stream.failsafe import Fatal, Mode, RequestLate, SessionOver
from lefleet_client.stream.records import Work
from lefleet_client.stream.timing import delay_steps
from lefleet_client.wire import Capabilities

if TYPE_CHECKING:
    from lefleet_client.stream.stream import ActionStream

_LOG = logging.getLogger(__name__)
_POLL_S = 0.1
_JOIN_S = 3.0
_AFTER_FAILURE_S = 0.1
_WARM_UPS = 3


def warm_up(policy: RemotePolicy, task: str, timeout_s: float) -> list[float]:
    """Seconds of some round trips with example observations, before the robot moves.

    The first is not counted: it may include the choice of the image codec. A server that opens
    sessions but does not answer is found here.
    """
    served = policy.ack.capabilities
    example = example_observation(served.contract, robot=policy.robot)
    earlier = [example] * (served.n_obs_steps - 1)
    seconds = []
    for _ in range(1 + _WARM_UPS):
        began_s = time.monotonic()
        policy.infer(example, task=task, history=earlier, timeout_s=timeout_s)
        seconds.append(time.monotonic() - began_s)
    return seconds[1:]


class EdgeWorker:
    """Turns due requests into merged chunks, and lost sessions into new ones.

    Its thread is the only one that calls the policy between `start` and `stop`.
    """

    def __init__(
        self,
        stream: "ActionStream",
        policy: RemotePolicy,
        convert: Callable[[Any], dict[str, NDArray[Any]]],
        task: str,
    ) -> None:
        self._stream = stream
        self._policy = policy
        self._convert = convert
        self._task = task
        self._episode = policy.episode_id
        self._ack = policy.ack
        self._promised = _promised(stream.served)
        self._thread = threading.Thread(target=self._run, name="edge worker", daemon=True)
        policy.listen(self._heard)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close the policy; a robot that is to be brought home does not wait for its network."""
        until_s = time.monotonic() + _JOIN_S
        closer = threading.Thread(target=self._policy.close, name="edge closer", daemon=True)
        closer.start()
        for thread in (closer, self._thread):
            if thread.ident is not None:
                thread.join(max(0.0, until_s - time.monotonic()))
                if thread.is_alive():
                    _LOG.warning("the %s did not end within %g s", thread.name, _JOIN_S)

    def _run(self) -> None:
        try:
            while not self._stream.is_over:
                self._turn()
        except Exception as error:  # noqa: BLE001 - a robot must stop, whatever it was
            if not self._stream.is_over:
                _LOG.exception("the edge worker failed")
                self._stream.failed(Fatal(f"the edge worker failed: {error!r}"))

    def _turn(self) -> None:
        """Keep a session; when a request is due, ask."""
        self._stream.wait_for_work(_POLL_S)
        self._policy.poll()
        if not self._policy.is_connected:
            self._connect()
            return
        if not self._is_as_promised():
            return
        while self._episode != self._stream.episode:
            # One after the other: the numbers of both sides stay the same.
            self._policy.reset()
            self._episode = self._policy.episode_id
        work = self._stream.take_work(self._episode)
        if work is not None:
            self._ask(work)

    def _ask(self, work: Work) -> None:
        stream = self._stream
        *earlier, newest = (self._convert(one) for one in work.observations)
        rtc: dict[str, Any] = {}
        if stream.plan.merge == "rtc":
            rtc = {
                "prefix_model": work.before.left_model,
                "prefix_robot": work.before.left_robot,
                "inference_delay_steps": delay_steps(
                    stream.round_trips.p95_s, stream.settings.fps, stream.served.rtc_horizon
                ),
            }
        try:
            chunk = self._policy.infer(
                newest,
                task=self._task,
                history=earlier,
                failover=False,
                timeout_s=stream.settings.request_timeout_s,
                **rtc,
            )
        except SessionLost as error:
            stream.failed(SessionOver(str(error)))
        except (WrongModel, Replaced) as error:
            stream.failed(Fatal(str(error)))
        except RemoteError as error:
            self._late(error)
        else:
            stream.merge(work, chunk, self._ack.session_id)

    def _late(self, error: RemoteError) -> None:
        """Count a request that failed; after some in a row try another server."""
        stream = self._stream
        if stream.is_over:
            return
        _LOG.warning("%s", error)
        state = stream.failed(RequestLate(str(error)))
        # An observation that cannot be sent is no fault of the server.
        is_theirs = not isinstance(error, BadObservation)
        if is_theirs and state.mode is Mode.RECONNECTING and self._policy.is_connected:
            self._policy.give_up()
        stream.wait_for_end(_AFTER_FAILURE_S)

    def _connect(self) -> None:
        """Try for as long as one whole attempt can take: a wait, a search and a question.

        A call that ends earlier cuts the question short, which follows last. On a link with slow
        answers no attempt would then succeed.
        """
        stream = self._stream
        try:
            self._policy.connect(LONGEST_BACKOFF_S + 1.5 * stream.settings.handshake_timeout_s)
        except (WrongModel, Replaced) as error:
            stream.failed(Fatal(str(error)))
        except RemoteError as error:
            if stream.is_over:
                return
            is_final = isinstance(error, Refused) and error.check != "capacity"
            stream.failed(Fatal(str(error)) if is_final else SessionOver(str(error)))
            stream.wait_for_end(_AFTER_FAILURE_S)

    def _is_as_promised(self) -> bool:
        """Whether the server of a new session serves what the robot was started with."""
        ack = self._policy.ack
        if ack is not self._ack:
            self._ack = ack
            if fault := _difference(self._promised, _promised(ack.capabilities)):
                self._stream.failed(Fatal(f"server {self._policy.server} has another {fault} now"))
        return not self._stream.is_over

    def _heard(self, notice: ConnectionNotice) -> None:
        """A server that drains still answers what is in flight; the next turn leaves it."""
        log_notice(notice)
        if notice.kind == "replaced":
            self._stream.feed(Fatal("another program uses this robot's client_id"))
        elif notice.kind in ("lost", "overtaken"):
            self._stream.feed(SessionOver(f"server {notice.server} {notice.reason}"))


def _promised(served: Capabilities) -> dict[str, object]:
    """What must not change under a moving robot."""
    return {
        "digest": served.digest,
        "contract": served.contract,
        "supports_rtc": served.supports_rtc,
        "rtc_horizon": served.rtc_horizon,
        "chunk_size": served.chunk_size,
        "n_obs_steps": served.n_obs_steps,
    }


def _difference(before: dict[str, object], now: dict[str, object]) -> str:
    return next((name for name, value in before.items() if now[name] != value), "")
