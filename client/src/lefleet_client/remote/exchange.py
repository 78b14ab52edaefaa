"""One call's conversation with a server: send, wait, send again, until a chunk comes."""

import time

from lefleet_client.remote.errors import RequestRejected
from lefleet_client.remote.link import Arrived, Link
from lefleet_client.wire import RequestFailed

# The news that a server drains and the end of its token travel separately: the token may be first.
_GRACE_S = 0.05
_PRESENCE_S = 0.5


class Exchange:
    """What one call has sent, over all links that it used.

    Observations travel best effort, so one that stays unanswered for `resend_s` is sent again;
    each time the wait doubles, so that a slow policy is not buried under repetitions.
    """

    def __init__(self, episode_id: int, deadline_s: float, resend_s: float) -> None:
        self._episode_id = episode_id
        self.deadline_s = deadline_s
        self._resend_s = resend_s
        self._sent_ns: dict[int, int] = {}

    @property
    def left_s(self) -> float:
        return self.deadline_s - time.monotonic()

    @property
    def sent(self) -> int:
        """How often the observation was sent."""
        return len(self._sent_ns)

    def round_trip_ms(self, answer: Arrived) -> float:
        return (answer.at_ns - self._sent_ns[answer.chunk.seq_id]) / 1e6

    def ask(self, link: Link, body: bytes) -> Arrived | None:
        """The chunk; None when time is up, or another server has to be found."""
        while self.left_s > 0:
            seq_id, now_ns = link.send(body, self._episode_id)
            self._sent_ns[seq_id] = now_ns
            answer = self._wait(link, time.monotonic() + self._resend_s)
            if answer is not None:
                return answer
            if not link.is_usable or self.left_s <= 0:
                return None
            # A server can vanish unseen while the link to it is down.
            link.is_gone = not link.is_present(min(_PRESENCE_S, self.left_s))
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
                return got
            if isinstance(got, RequestFailed) and got.seq_id in self._sent_ns:
                raise RequestRejected(
                    got.reason,
                    f"server {link.server} could not answer the observation: {got.reason}",
                )
            if got is None and seems_dead and link.is_gone and not link.is_draining:
                return None
        return None

    def _is_mine(self, answer: Arrived) -> bool:
        chunk = answer.chunk
        return chunk.seq_id in self._sent_ns and chunk.episode_id == self._episode_id
