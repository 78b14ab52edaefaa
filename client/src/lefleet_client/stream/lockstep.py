"""The same policy without threads: ask, wait, execute, ask again. Simulations can wait."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from lefleet_client.remote import RemotePolicy
from lefleet_client.stream.queue import Origin, QueuedAction, steps_of
from lefleet_client.stream.records import Executed


class LockStep:
    """One chunk after the other, each from the observation at which the last one was used up.

    With a deterministic policy, or a `noise_seed`, episodes equal those of a policy in the same
    process. One thread calls. Errors of the network are raised: a simulation can be run again.
    """

    def __init__(
        self,
        policy: RemotePolicy,
        *,
        execute_steps: int | None = None,
        convert: Callable[[Any], dict[str, NDArray[Any]]] = dict,
        task: str = "",
        noise_seed: int | None = None,
    ) -> None:
        served = policy.ack.capabilities
        self._policy = policy
        self._convert = convert
        self._task = task
        self._noise_seed = noise_seed
        self._asked = 0
        self._execute_steps = execute_steps or served.n_action_steps
        if not 1 <= self._execute_steps <= served.chunk_size:
            raise ValueError(f"execute_steps: {execute_steps}, and a chunk has {served.chunk_size}")
        self._history: deque[Any] = deque(maxlen=max(1, served.n_obs_steps))
        self._actions: deque[QueuedAction] = deque()
        self._newest: QueuedAction | None = None

    def reset(self) -> None:
        """A new episode begins."""
        self._history.clear()
        self._actions.clear()
        self._asked = 0
        self._policy.reset()

    def next_action(self, observation: Any) -> NDArray[Any]:
        """The action for this observation."""
        self._history.append(observation)
        if not self._actions:
            *earlier, newest = (self._convert(one) for one in self._history)
            seed = None if self._noise_seed is None else self._noise_seed + self._asked
            observed_at_s = time.monotonic()
            chunk = self._policy.infer(newest, task=self._task, history=earlier, noise_seed=seed)
            self._asked += 1
            origin = Origin(
                observed_at_s=observed_at_s,
                session_id=self._policy.ack.session_id,
                seq_id=chunk.seq_id,
                episode_id=self._policy.episode_id,
                digest=chunk.digest,
                server=chunk.server,
            )
            self._actions.extend(steps_of(chunk.model, chunk.robot, origin, self._execute_steps))
        self._newest = self._actions.popleft()
        return self._newest.robot

    @property
    def executed(self) -> Executed:
        """Where the newest action came from."""
        if self._newest is None:
            return Executed(None, 0, 0.0)
        origin = self._newest.origin
        return Executed(origin, self._newest.step, time.monotonic() - origin.observed_at_s)

    def stop(self) -> None:
        self._policy.close()
