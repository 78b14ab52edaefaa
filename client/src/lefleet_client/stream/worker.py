"""The thread that asks the server: one request at a time, always with the newest observation."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from lefleet_client.remote import (
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
from lefleet_client.stream.failsafe import Fatal, Mode, RequestLate, SessionOver
from lefleet_client.stream.timing import delay_steps
from lefleet_client.wire import Capabilities

if TYPE_CHECKING:
    from lefleet_client.stream.stream import ActionStream, Work

_LOG = logging.getLogger(__name__)
_POLL_S = 0.1
_JOIN_S = 3.0
_AFTER_FAILURE_S = 0.1
_WARM_UPS = 3


def warm_up(policy: RemotePolicy, task: str) -> list[float]:
    """Seconds of some round trips with example observations, before the robot moves.

    The first is not counted: it may include the choice of the image codec. A server that opens
    sessions but does not answer is found here.
    """
    served = policy.ack.capabilities
    example = example_observation(served.contract)
    earlier = [example] * (served.n_obs_steps - 1)
    seconds = []
    for _ in range(1 + _WARM_UPS):
        began_s = time.monotonic()
        policy.infer(example, task=task, history=earlier)
        seconds.append(time.monotonic() - began_s)
    return seconds[1:]


class Worker:
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
        self._episode = 0
        self._served = _promised(policy.ack.capabilities)
        self._thread = threading.Thread(target=self._run, name="edge worker", daemon=True)
        policy.listen(self._heard)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._policy.close()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
            if self._thread.is_alive():
                _LOG.warning("the edge worker did not end within %g s", _JOIN_S)

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
        if self._episode != self._stream.episode:
            self._episode = self._stream.episode
            self._policy.reset()
        work = self._stream.take_work()
        if work is not None:
            self._ask(work)

    def _ask(self, work: "Work") -> None:
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
                newest, task=self._task, history=earlier, failover=False, **rtc
            )
        except SessionLost as error:
            stream.failed(SessionOver(str(error)))
        except (WrongModel, Replaced) as error:
            stream.failed(Fatal(str(error)))
        except RemoteError as error:
            self._late(str(error))
        else:
            stream.merge(work, chunk, self._policy.ack.session_id)

    def _late(self, reason: str) -> None:
        """Count a request that failed; after some in a row try another server."""
        if self._stream.is_over:
            return
        _LOG.warning("%s", reason)
        self._stream.failed(RequestLate(reason))
        if self._stream.status().state.mode is Mode.RECONNECTING and self._policy.is_connected:
            self._policy.give_up()
        self._stream.wait_for_end(_AFTER_FAILURE_S)

    def _connect(self) -> None:
        stream = self._stream
        try:
            self._policy.connect(stream.settings.handshake_timeout_s)
        except (WrongModel, Replaced) as error:
            stream.failed(Fatal(str(error)))
        except Refused as error:
            has_room = error.check != "capacity"
            stream.failed(Fatal(str(error)) if has_room else SessionOver(str(error)))
        except RemoteError as error:
            if not stream.is_over:
                stream.failed(SessionOver(str(error)))
        else:
            served = self._policy.ack.capabilities
            if fault := _difference(self._served, _promised(served)):
                stream.failed(Fatal(f"server {self._policy.server} has another {fault} now"))

    def _heard(self, notice: ConnectionNotice) -> None:
        log_notice(notice)
        if notice.kind == "replaced":
            self._stream.feed(Fatal("another program uses this robot's client_id"))
        elif notice.kind == "draining":
            self._stream.feed(SessionOver(f"server {notice.server} is about to stop"))
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
