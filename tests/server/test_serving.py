"""What robots may rely on: newest wins, fair turns, clean episodes, clear refusals."""

import threading
from collections import Counter

import numpy as np
import pytest

from lefleet_client import wire
from lefleet_client.remote import RequestRejected
from lefleet_client.transport import OBSERVATION
from tests.server.serving import Bench, Gated, Outcomes, eventually, observation


class Sender:
    """A robot that does not wait for answers: observations go out by hand."""

    def __init__(self, bench: Bench, policy, name: str) -> None:
        self.robot = bench.robot(name)
        status = bench.service.status()
        keys = wire.ServiceKeys(status.model, status.revision, status.service)
        self._publisher = bench.node().publisher(
            keys.server(status.server).client(name).obs, OBSERVATION
        )
        self._epoch = self.robot.ack.session_epoch
        self._policy = policy

    def send(self, seq_id: int, episode_id: int = 0, body: bytes | None = None) -> None:
        header = wire.Header(wire.MessageType.OBSERVATION, seq_id, episode_id, seq_id, self._epoch)
        self._publisher.put(body or self.body(), header.pack())

    def body(self) -> bytes:
        seen = observation(self._policy, seed=1)
        vectors = {key: wire.encode_tensor(value) for key, value in seen.items()}
        return wire.OBSERVATION.encode(wire.Observation(vectors=vectors))


def test_a_slow_policy_and_a_fast_robot_never_build_a_queue(checkpoint, policy):
    gated, outcomes = Gated(policy), Outcomes()
    with Bench(checkpoint, gated, {"observers": [outcomes]}) as bench:
        sender = Sender(bench, policy, "fast")
        sender.send(0)
        assert gated.has_begun.acquire(timeout=20)
        for seq_id in range(1, 101):
            sender.send(seq_id)
        bench.deliver()
        gated.may_end.release()
        assert gated.has_begun.acquire(timeout=20)
        gated.may_end.release()
        outcomes.wait(2)
    assert [one.seq_id for one in outcomes] == [0, 100]
    assert sum(one.superseded for one in outcomes) == 99


def test_one_greedy_robot_starves_nobody(checkpoint, policy):
    """Grants are counted while one robot sends ten observations for every turn that anybody has,
    and three others wait for each of their answers."""
    outcomes = Outcomes()
    with Bench(checkpoint, policy, {"observers": [outcomes]}) as bench:
        greedy = Sender(bench, policy, "greedy")
        outcomes.each(lambda count: [greedy.send(10 * count + more) for more in range(10)])
        greedy.send(0)
        modest = [threading.Thread(target=_ask, args=(bench, policy, n, 50)) for n in range(3)]
        for thread in modest:
            thread.start()
        for thread in modest:
            thread.join(60)
        outcomes.wait(150)
    grants = Counter(one.client_id for one in outcomes)
    assert {grants[f"modest {number}"] for number in range(3)} == {50}


def _ask(bench: Bench, policy, number: int, count: int) -> None:
    with bench.robot(f"modest {number}") as robot:
        for step in range(count):
            robot.infer(observation(policy, step))


def test_an_answer_that_arrives_after_a_reset_is_for_nobody(checkpoint, policy):
    gated, outcomes = Gated(policy), Outcomes()
    with Bench(checkpoint, gated, {"observers": [outcomes]}) as bench:
        sender = Sender(bench, policy, "arm")
        sender.send(0)
        assert gated.has_begun.acquire(timeout=20)
        sender.robot.reset()
        gated.may_end.release()
        outcomes.wait(1)
        sender.send(1, episode_id=0)
        outcomes.wait(2)
        sender.send(2, episode_id=1)
        assert gated.has_begun.acquire(timeout=20)
        gated.may_end.release()
        outcomes.wait(3)
    assert [one.result for one in outcomes] == ["stale", "stale", "answered"]


def test_a_fresh_session_inherits_nothing(checkpoint, policy):
    """The pipeline is reset before the first request, in whatever episode the robot is."""
    with Bench(checkpoint, policy) as bench, bench.robot("arm") as robot:
        for _ in range(3):
            robot.reset()
        robot.infer(observation(policy, 0))
        eventually(lambda: bench.service.status().clients[0].answered == 1)
        assert bench.service.status().clients[0].episode_id == 3


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda seen: seen.pop("observation.environment_state"), "observation.environment_state"),
        (lambda seen: seen.update({"observation.state": np.zeros(99, "f4")}), "observation.state"),
        (lambda seen: seen["observation.state"].fill(np.nan), "observation.state"),
        (lambda seen: seen.update({"observation.other": np.zeros(2, "f4")}), "observation.other"),
    ],
    ids=["missing", "size", "nan", "unknown"],
)
def test_a_request_that_does_not_fit_is_refused_by_name(checkpoint, policy, spoil, words):
    with Bench(checkpoint, policy) as bench, bench.robot("arm") as robot:
        seen = observation(policy, 0)
        spoil(seen)
        with pytest.raises(RequestRejected, match=words):
            robot.infer(seen)
        assert robot.infer(observation(policy, 1)).robot.shape[1] == len(
            policy.contract.action_names
        )


def test_a_policy_that_fails_is_an_answer_and_not_the_end(checkpoint, policy):
    class Failing(Gated):
        def predict(self, prepared):
            if not self.may_end.acquire(blocking=False):
                raise RuntimeError("the secret of the house")
            return self._policy.predict(prepared)

    failing = Failing(policy)
    with Bench(checkpoint, failing) as bench, bench.robot("arm") as robot:
        with pytest.raises(RequestRejected, match="RuntimeError") as told:
            robot.infer(observation(policy, 0))
        assert "secret" not in str(told.value)
        failing.may_end.release()
        assert robot.infer(observation(policy, 0)).seq_id >= 0


def test_numbers_that_are_not_finite_never_reach_a_robot(checkpoint, policy):
    class Lost(Gated):
        def predict(self, prepared):
            return self._policy.predict(prepared) * float("nan")

    with (
        Bench(checkpoint, Lost(policy)) as bench,
        bench.robot("arm") as robot,
        pytest.raises(RequestRejected, match="ValueError"),
    ):
        robot.infer(observation(policy, 0))


def test_an_answer_says_how_long_everything_took(checkpoint, policy):
    with Bench(checkpoint, policy) as bench, bench.robot("arm") as robot:
        answer = robot.infer(observation(policy, 0))
        took = answer.timing
        spent = took.queue_wait_ms + took.prepare_ms + took.inference_ms
        assert 0 < took.inference_ms <= spent <= took.round_trip_ms
