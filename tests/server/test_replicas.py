"""Two servers of one service: both are found, each request is answered once, one may go."""

import json
import threading

import numpy as np
import pytest

from lefleet_client.remote import Refused, RemotePolicy, discover
from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.policy import tiny
from tests.server.serving import Gated, Outcomes, eventually, loaded, observation, serving


class Replica:
    """A server in this process, on a node of its own."""

    def __init__(self, router, checkpoint, policy, name, **settings):
        self.outcomes = Outcomes()
        self.node = ZenohTransport.open(ZenohSettings(connect=(router.endpoint,)))
        self._serving = serving(
            checkpoint, policy, self.node, server_name=name, observers=[self.outcomes], **settings
        )
        self.service = self._serving.__enter__()

    def close(self):
        self._serving.__exit__(None, None, None)
        self.node.close()


@pytest.fixture
def replicas(router, checkpoint, policy):
    both = {name: Replica(router, checkpoint, policy, name) for name in ("left", "right")}
    yield both
    for one in both.values():
        one.close()


def robots(router, count: int, timeout_s: float = 10) -> list[RemotePolicy]:
    return [
        RemotePolicy(router.endpoint, "test", client_id=f"robot {number}", timeout_s=timeout_s)
        for number in range(count)
    ]


def test_both_are_found_and_robots_are_spread(router, replicas):
    fleet = robots(router, 6)
    with ZenohTransport.open(ZenohSettings(connect=(router.endpoint,))) as node:
        statuses = discover(node, "test", timeout_s=5.0, with_clients=True)
    found = {status.server: status for status in statuses}
    assert set(found) == {"left", "right"}
    seen = [row.client_id for status in found.values() for row in status.clients]
    assert sorted(seen) == [f"robot {number}" for number in range(6)]
    assert all(status.sessions for status in found.values())
    for robot in fleet:
        robot.close()
    eventually(lambda: not any(one.service.status().sessions for one in replicas.values()))


def test_each_observation_is_answered_once(router, replicas, policy):
    fleet = robots(router, 4)
    asked = []
    for step in range(10):
        for number, robot in enumerate(fleet):
            answer = robot.infer(observation(policy, step))
            asked.append((f"robot {number}", answer.seq_id))
    for robot in fleet:
        robot.close()
    eventually(lambda: sum(len(one.outcomes) for one in replicas.values()) >= len(asked))
    answered = [
        (one.client_id, one.seq_id) for replica in replicas.values() for one in replica.outcomes
    ]
    assert sorted(answered) == sorted(asked)


def test_when_one_drains_its_robots_go_on_with_the_other(router, replicas, policy):
    fleet = robots(router, 4)
    expected = [robot.infer(observation(policy, 0), noise_seed=1).robot for robot in fleet]
    leaving = replicas[fleet[0].server]
    (staying,) = [one for one in replicas.values() if one is not leaving]
    leaving.service.drain()
    for robot, chunk in zip(fleet, expected, strict=True):
        np.testing.assert_array_equal(
            robot.infer(observation(policy, 0), noise_seed=1).robot, chunk
        )
    assert staying.service.status().sessions == 4
    for robot in fleet:
        robot.close()


def test_a_request_in_flight_is_answered_before_the_server_goes(router, checkpoint, policy):
    gated = Gated(policy)
    replica = Replica(router, checkpoint, gated, "only")
    (robot,) = robots(router, 1)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(robot.infer(observation(policy, 0))))
    asking.start()
    assert gated.has_begun.acquire(timeout=20)
    draining = threading.Thread(target=replica.service.drain)
    draining.start()
    eventually(lambda: replica.service.is_draining)
    assert not answers
    gated.may_end.release()
    draining.join(20)
    asking.join(20)
    replica.outcomes.wait(1)
    assert [one.result for one in replica.outcomes] == ["answered"]
    assert answers[0].server == "only"
    robot.close()
    replica.close()


def test_a_replica_whose_columns_have_other_names_is_none(router, tmp_path):
    """Its files are the same, so its digest is too; what it does with them is not."""
    tiny.act_environment(tmp_path, contract=False)
    policies = [_with_actions(tmp_path, names) for names in (tiny.JOINTS, tiny.JOINTS[::-1])]
    assert policies[0].digest == policies[1].digest
    right = Replica(router, tmp_path, policies[0], "right")
    (robot,) = robots(router, 1, timeout_s=5)
    robot.infer(observation(policies[0], 0))
    wrong = Replica(router, tmp_path, policies[1], "wrong")
    right.service.drain()
    with pytest.raises(Refused, match="action_names"):
        robot.infer(observation(policies[0], 0))
    robot.close()
    for replica in (right, wrong):
        replica.close()


def _with_actions(folder, names):
    """A policy whose columns are named by the manifest alone."""
    vectors = {tiny.STATE: tiny.JOINTS, tiny.ENVIRONMENT: tiny.OBJECT}
    said = {"action_names": names, "vectors": vectors, "fps": 30}
    return loaded(folder, contract=json.dumps(said))
