"""Many robots on one policy: every answer belongs to its robot and is what it would be alone."""

import threading

import numpy as np
import pytest

from tests.server.serving import Bench, observation

ROBOTS = 8


@pytest.fixture(scope="module")
def checkpoint(checkpoint_of):
    return checkpoint_of("relative_act")


@pytest.fixture(scope="module")
def policy(policy_of):
    return policy_of("relative_act")


class SharedPipeline:
    """What must not be done: one pair of processors for all robots."""

    def __init__(self, policy):
        self._policy = policy
        self._pipeline = policy.new_pipeline()

    def new_pipeline(self):
        return self._pipeline

    def __getattr__(self, name):
        return getattr(self._policy, name)


def seen_by(policy, robot: int, step: int) -> dict[str, np.ndarray]:
    """Robots stand in different places: a state of one is far from any state of another."""
    seen = observation(policy, seed=robot * 10_000 + step % 20)
    seen["observation.state"] = seen["observation.state"] + np.float32(100 * robot)
    return seen


def alone(policy, robot: int, step: int) -> np.ndarray:
    """The answer that a robot gets when it is the only one."""
    from lefleet.policy.request import PolicyRequest

    pipeline = policy.new_pipeline()
    request = PolicyRequest((seen_by(policy, robot, step),), task="", robot_type="", seed=0)
    return pipeline.finish(policy.predict(pipeline.prepare(request))).robot


def wrong_answers(bench: Bench, policy, requests: int) -> int:
    """How many of all robots' answers differ from what they must be."""
    expected = {(r, s): alone(policy, r, s) for r in range(ROBOTS) for s in range(20)}
    wrong, answered = [0] * ROBOTS, [0] * ROBOTS
    failures = []

    def live(robot: int) -> None:
        try:
            with bench.robot(f"robot {robot}") as remote:
                for step in range(requests):
                    answer = remote.infer(seen_by(policy, robot, step), noise_seed=0)
                    answered[robot] += 1
                    if not np.array_equal(answer.robot, expected[robot, step % 20]):
                        wrong[robot] += 1
        except Exception as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(ROBOTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert answered == [requests] * ROBOTS
    return sum(wrong)


@pytest.mark.parametrize("requests", [40, pytest.param(500, marks=pytest.mark.chaos)])
def test_requests_of_eight_robots_are_never_mixed_up(checkpoint, policy, requests):
    with Bench(checkpoint, policy) as bench:
        assert wrong_answers(bench, policy, requests) == 0


def test_a_shared_pipeline_would_be_noticed(checkpoint, policy):
    with Bench(checkpoint, SharedPipeline(policy)) as bench:
        assert wrong_answers(bench, policy, requests=20) > 0
