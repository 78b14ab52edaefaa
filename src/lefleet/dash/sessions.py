"""Who has logged in with a token, in memory; and how often an address may try.

A restart ends all sessions. A session has a random id of its own, so that the cookie in a browser
is not the token.
"""

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from lefleet.dash.tokens import AccessToken, TokenFile
from lefleet.server.rates import TokenBucket

LIFETIME_S = 30 * 24 * 3600.0
IDLE_S = 7 * 24 * 3600.0
_OF_ONE_TOKEN = 20
"""Sessions; a further one ends the one that was not used for longest."""
_ATTEMPTS, _ATTEMPTS_PER_S = 10, 0.2
_REMEMBERED = 1024


@dataclass
class _Session:
    token: AccessToken
    began_s: float
    used_s: float


class LoginSessions:
    """Sessions by the hash of their id, so that no comparison of ids takes a telling time.

    Any thread may call; one lock guards the table.
    """

    def __init__(self, tokens: TokenFile, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    def begin(self, token: AccessToken) -> str:
        """The id of a new session of whoever has `token`."""
        session_id, now_s = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            for key in [key for key, one in self._sessions.items() if self._is_over(one)]:
                del self._sessions[key]
            own = [key for key, one in self._sessions.items() if one.token == token]
            for key in own[: max(0, len(own) - _OF_ONE_TOKEN + 1)]:
                del self._sessions[key]
            self._sessions[_key(session_id)] = _Session(token, now_s, now_s)
        return session_id

    def find(self, session_id: str) -> AccessToken | None:
        """Whose session it is, which counts as its use; None where it is over."""
        key = _key(session_id)
        with self._lock:
            found = self._sessions.get(key)
            if found is None:
                return None
            if self._is_over(found):
                del self._sessions[key]
                return None
            found.used_s = self._clock()
            self._sessions.move_to_end(key)
            return found.token

    def end(self, session_id: str) -> None:
        with self._lock:
            self._sessions.pop(_key(session_id), None)

    def _is_over(self, one: _Session) -> bool:
        now_s = self._clock()
        is_old = now_s - one.began_s > LIFETIME_S or now_s - one.used_s > IDLE_S
        return is_old or not self._tokens.is_live(one.token)


class AttemptLimiter:
    """How often an address may present a token that is wrong, or log in. Remembers the latest
    addresses only: what protects tokens is their length, this keeps guessing cheap for us.

    For one thread: that of the server's event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def allows(self, peer: str) -> bool:
        """Whether one more attempt is allowed now."""
        now_s, network = self._clock(), _network(peer)
        bucket = self._buckets.pop(network, None)
        bucket = bucket or TokenBucket(_ATTEMPTS, _ATTEMPTS_PER_S, now_s)
        self._buckets[network] = bucket
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return bucket.take(now_s)


def _key(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode(errors="replace")).digest()


def _network(peer: str) -> str:
    """An address; of IPv6 the part that one household or machine usually has as a whole."""
    try:
        address = ip_address(peer)
    except ValueError:
        return peer
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or address.exploded[:19])
