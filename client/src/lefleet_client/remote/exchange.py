"""One call's conversation with a server: send, wait, send again, until a chunk comes."""

import time
from collections.abc import Iterator

from lefleet_client.remote.errors import RequestRejected
from lefleet_client.remote.link import Arrived, Link
from lefleet_client.wire import RequestFailed

# The news that a server drains and the end of its token travel separately: the token may be first.
_GRACE_S = 0.05
_PRESENCE_S = 0.5


class Exchange:
    """What one call has sent, over all links that it used.

    Observations travel best effort, so one that stays unanswered for `resend_s` is sent again,
    under the same number: a server that has it already computes nothing twice. Each time the wait
    doubles. Each link gets a number of its own, newer than that of any probe before it.
    """

    def __init__(
        self, seqs: Iterator[int], episode_id: int, deadline_s: float, resend_s: float
    ) -> None:
        self._seqs = seqs
        self._seq_id = 0
        self._episode_id = episode_id
        self._resend_s = resend_s
        self._began_ns = 0
        self.deadline_s = deadline_s
        self.sent = 0
        """How often the observation was sent."""
        self.round_trip_ms = 0.0
        """From the first sending to the answer, whatever it says; 0 before there is one."""

    @property
    def left_s(self) -> float:
        return self.deadline_s - time.monotonic()

    def ask(self, link: Link, body: bytes) -> Arrived | None:
        """The chunk; None when time is up, or another server has to be found."""
        self._seq_id = next(self._seqs)
        while self.left_s > 0:
            self._began_ns = self._began_ns or time.monotonic_ns()
            link.send(body, self._seq_id, self._episode_id, self._began_ns)
            self.sent += 1
            answer = self._wait(link, time.monotonic() + self._resend_s)
            if answer is not None:
                return answer
            left_s = self.left_s
            if not link.is_usable or left_s <= 0:
                return None
            # A server can vanish unseen while the link to it is down.
            link.is_gone = not link.is_present(min(_PRESENCE_S, left_s))
            if link.is_gone:
                return None
            self._resend_s *= 2
        return None

    def _wait(self, link: Link, until_s: float) -> Arrived | None:
        """The chunk; None when none came in time, or none will come over this link."""
        until_s = min(until_s, self.deadline_s)
        while not link.is_over and (left_s := until_s - time.monotonic()) > 0:
            seems_dead = link.is_gone and not link.is_draining
            got = link.receive(min(left_s, _GRACE_S) if seems_dead else left_s)
            if isinstance(got, Arrived) and self._is_mine(got):
                self.round_trip_ms = (got.at_ns - self._began_ns) / 1e6
                return got
            if isinstance(got, RequestFailed) and got.seq_id == self._seq_id:
                self.round_trip_ms = (time.monotonic_ns() - self._began_ns) / 1e6
                raise RequestRejected(
                    got.reason,
                    f"server {link.server} could not answer the observation: {got.reason}",
                )
            if got is None and seems_dead and link.is_gone and not link.is_draining:
                return None
        return None

    def _is_mine(self, answer: Arrived) -> bool:
        chunk = answer.chunk
        return chunk.seq_id == self._seq_id and chunk.episode_id == self._episode_id
