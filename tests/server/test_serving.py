"""What robots may rely on: newest wins, fair turns, clean episodes, clear refusals."""

import dataclasses
import threading
from collections import Counter

import numpy as np
import pytest

from lefleet_client import wire
from lefleet_client.remote import RequestRejected, RobotFeatures
from lefleet_client.transport import OBSERVATION
from tests.policy import tiny
from tests.server.serving import Bench, Gated, Outcomes, eventually, observation


class Sender:
    """A robot that does not wait for answers: observations go out by hand."""

    def __init__(self, bench: Bench, policy, name: str) -> None:
        self.robot = bench.robot(name)
        self._publisher = bench.node().publisher(bench.keys(name).obs, OBSERVATION)
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


def test_one_greedy_robot_gets_no_more_turns_than_the_others(checkpoint, policy):
    """Four robots always have something to ask, one of them ten times as much. The policy answers
    one request after the other, each when the test lets it, so every turn is seen. Two threads that
    prepare may finish in another order than they began, and the first turns go to who is there."""
    gated, outcomes = Gated(policy), Outcomes()
    settings = {"observers": [outcomes], "prepare_threads": 1}
    with Bench(checkpoint, gated, settings) as bench:
        senders = [Sender(bench, policy, name) for name in ("greedy", "one", "two", "three")]
        for turn in range(48):
            for more in range(10):
                senders[0].send(turn * 10 + more)
            for modest in senders[1:]:
                modest.send(turn)
            bench.deliver()
            gated.may_end.release()
            outcomes.wait(turn + 1)
        for _ in range(8):
            gated.may_end.release()
        grants = Counter(one.client_id for one in outcomes[8:48])
    assert max(grants.values()) - min(grants.values()) <= 1, grants


def test_an_answer_that_arrives_after_a_reset_is_stale(checkpoint, policy):
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


def test_an_answer_that_was_lost_is_sent_again_and_not_computed_again(checkpoint, policy):
    outcomes = Outcomes()
    with Bench(checkpoint, policy, {"observers": [outcomes]}) as bench:
        sender = Sender(bench, policy, "arm")
        answers = bench.listen("arm")
        sender.send(7)
        eventually(lambda: len(answers) == 1)
        sender.send(7)
        eventually(lambda: len(answers) == 2)
        sender.send(8)
        eventually(lambda: len(answers) == 3)
    assert answers[0] == answers[1] != answers[2]
    assert [one.seq_id for one in outcomes] == [7, 8]


def test_the_pipeline_is_reset_where_an_episode_begins_and_nowhere_else(checkpoint, policy):
    """Also in a fresh session, in whatever episode the robot is by then."""
    watched = Watched(policy)
    with Bench(checkpoint, watched) as bench, bench.robot("arm") as robot:
        robot.reset()
        robot.reset()
        for _ in range(2):
            robot.infer(observation(policy, 0))
        assert watched.did == ["new", "reset", "prepare", "prepare"]
        robot.reset()
        robot.infer(observation(policy, 0))
        assert watched.did == ["new", "reset", "prepare", "prepare", "reset", "prepare"]
        assert bench.service.status(with_clients=True).clients[0].episode_id == 3


class Watched:
    """A policy whose pipelines write down what is done with them, and who made them."""

    def __init__(self, policy):
        self._policy = policy
        self.did = []
        self.made_by = []
        self.may_make = threading.Event()
        self.may_make.set()

    def new_pipeline(self):
        self.made_by.append(threading.current_thread().name)
        assert self.may_make.wait(20)
        self.did.append("new")
        pipeline = self._policy.new_pipeline()
        for name in ("reset", "prepare"):
            setattr(pipeline, name, self._noting(name, getattr(pipeline, name)))
        return pipeline

    def _noting(self, name, method):
        def noting(*values):
            self.did.append(name)
            return method(*values)

        return noting

    def __getattr__(self, name):
        return getattr(self._policy, name)


def test_copying_processors_holds_up_no_handshake_and_no_other_robot(checkpoint, policy):
    """They are copied by a thread that prepares: threads of the transport only take requests."""
    watched, outcomes = Watched(policy), Outcomes()
    with Bench(checkpoint, watched, {"observers": [outcomes]}) as bench:
        first, second = (Sender(bench, policy, name) for name in ("first", "second"))
        assert watched.made_by == []
        second.send(0)
        outcomes.wait(1)
        watched.may_make.clear()
        first.send(0)
        eventually(lambda: len(watched.made_by) == 2)
        with bench.robot("third"):
            assert bench.service.status().sessions == 3
        second.send(1)
        outcomes.wait(2)
        watched.may_make.set()
        outcomes.wait(3)
    assert [one.client_id for one in outcomes] == ["second", "second", "first"]
    assert all(name.startswith("prepare-") for name in watched.made_by)


def test_what_the_policy_does_not_know_is_ignored_and_warned_of_once(checkpoint_of, policy_of):
    """Our client refuses to send what was not announced; another program may."""
    folder, policy = checkpoint_of("act_images"), policy_of("act_images")
    other = "observation.images.other"
    side = np.zeros((24, 32, 3), np.uint8)
    with Bench(folder, policy) as bench:
        sender = Sender(bench, policy, "arm")
        heard = bench.listen("arm")
        seen = observation(policy, seed=1)
        images = {key: value for key, value in seen.items() if value.dtype == np.uint8}
        vectors = {key: value for key, value in seen.items() if key not in images}
        vectors["observation.flag"] = np.zeros(2, np.float32)
        body = wire.Observation(
            vectors={key: wire.encode_tensor(value) for key, value in vectors.items()},
            images=wire.encode_images({**images, other: side}, quality=0),
        )
        for number in (1, 2):
            sender.send(number, body=wire.OBSERVATION.encode(body))
            eventually(lambda number=number: len(heard) == number)
        chunks = [wire.CHUNK.decode(one.payload) for one in heard]
        assert [one.seq_id for one in chunks] == [1, 2]
        (session,) = bench.service.status(with_clients=True).clients
        (warning,) = session.warnings
        assert warning.startswith(f"observation.flag, {other}: ignored, the policy takes ")
        sender.robot.close()


def test_what_is_announced_and_not_known_is_ignored_and_warned_of_in_the_ack(
    checkpoint_of, policy_of
):
    folder, policy = checkpoint_of("act_images"), policy_of("act_images")
    camera, force = "observation.images.other", "observation.force"
    features = RobotFeatures.of(policy.contract)
    announced = dataclasses.replace(
        features,
        cameras={**features.cameras, camera: (24, 32, 3)},
        vectors={**features.vectors, force: ("x", "y")},
    )
    seen = observation(policy, seed=1)
    more = {camera: np.zeros((24, 32, 3), np.uint8), force: np.ones(2, np.float32)}
    with Bench(folder, policy) as bench, bench.robot("arm", robot=announced) as robot:
        said = " ".join(robot.ack.warnings)
        assert f"the policy does not look through {camera}" in said
        assert f"the policy takes no {force}" in said
        chunk = robot.infer(seen | more, noise_seed=5)
        (session,) = bench.service.status(with_clients=True).clients
        assert session.warnings == robot.ack.warnings
        assert chunk.robot.tobytes() == robot.infer(seen, noise_seed=5).robot.tobytes()


def test_a_request_of_an_earlier_episode_is_answered_with_the_reason(checkpoint, policy):
    with Bench(checkpoint, policy) as bench:
        sender = Sender(bench, policy, "arm")
        heard = bench.listen("arm")
        sender.send(1, episode_id=5)
        eventually(lambda: len(heard) == 1)
        sender.send(2, episode_id=4)
        eventually(lambda: len(heard) == 2)
        event = wire.EVENT.decode(heard[1].payload)
    assert event.seq_id == 2
    assert event.reason.startswith(wire.NEWER)


def test_what_overtakes_on_the_way_is_not_answered_with_what_is_old(checkpoint, policy):
    gated, outcomes = Gated(policy), Outcomes()
    with Bench(checkpoint, gated, {"observers": [outcomes]}) as bench:
        sender = Sender(bench, policy, "arm")
        sender.send(1)
        assert gated.has_begun.acquire(timeout=20)
        for seq_id in (9, 8):
            sender.send(seq_id)
        bench.deliver()
        gated.may_end.release()
        gated.may_end.release()
        outcomes.wait(2)
    assert [(one.seq_id, one.superseded) for one in outcomes] == [(1, 1), (9, 0)]


def test_superseded_requests_are_reported_with_the_next_answer(checkpoint, policy):
    gated, outcomes = Gated(policy), Outcomes()
    with Bench(checkpoint, gated, {"observers": [outcomes]}) as bench:
        sender = Sender(bench, policy, "arm")
        sender.send(1)
        assert gated.has_begun.acquire(timeout=20)
        for seq_id in range(2, 12):
            sender.send(seq_id)
        bench.deliver()
        sender.robot.reset()
        for _ in range(2):
            gated.may_end.release()
        outcomes.wait(2)
        sender.send(20, episode_id=1)
        outcomes.wait(3)
    assert [(one.result, one.superseded) for one in outcomes] == [
        ("stale", 0),
        ("stale", 0),
        ("answered", 9),
    ]


def test_an_image_that_would_hold_up_all_robots_is_refused(checkpoint_of, policy_of):
    folder, policy = checkpoint_of("act_images"), policy_of("act_images")
    with Bench(folder, policy) as bench, bench.robot("arm", image_codec="jpeg") as robot:
        seen = observation(policy, 0)
        with pytest.raises(RequestRejected, match=r"images\.top: 1500 x 1500 .* resize it"):
            robot.infer(seen | {tiny.TOP: np.zeros((1500, 1500, 3), np.uint8)})
        robot.infer(seen)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda seen: seen.pop("observation.environment_state"), "observation.environment_state"),
        (lambda seen: seen.update({"observation.state": np.zeros(99, "f4")}), "observation.state"),
        (lambda seen: seen["observation.state"].fill(np.nan), "observation.state"),
    ],
    ids=["missing", "size", "nan"],
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
        pytest.raises(RequestRejected, match="NaN or infinity"),
    ):
        robot.infer(observation(policy, 0))


def test_an_answer_says_how_long_everything_took(checkpoint, policy):
    with Bench(checkpoint, policy) as bench, bench.robot("arm") as robot:
        answer = robot.infer(observation(policy, 0))
        took = answer.timing
        spent = took.queue_wait_ms + took.prepare_ms + took.inference_ms
        assert 0 < took.inference_ms <= spent <= took.round_trip_ms


def test_an_observer_that_fails_ends_nothing(checkpoint, policy):
    class Broken:
        def finished(self, outcome):
            raise RuntimeError("the disk is full")

    with Bench(checkpoint, policy, {"observers": [Broken()]}) as bench, bench.robot("arm") as robot:
        for step in range(3):
            robot.infer(observation(policy, step))


def test_a_probe_may_be_no_larger_than_an_observation(checkpoint_of, policy_of):
    folder, policy = checkpoint_of("act_images"), policy_of("act_images")
    with Bench(folder, policy) as bench, bench.robot("arm", image_codec="auto") as robot:
        seen = observation(policy, 0) | {tiny.TOP: np.zeros((1500, 1500, 3), np.uint8)}
        with pytest.raises(RequestRejected, match="resize it"):
            robot.infer(seen)
        assert not bench.service.probes


def test_images_of_another_size_than_announced_are_warned_of_once_and_seen_in_the_status(
    checkpoint_of, policy_of, caplog
):
    folder, policy = checkpoint_of("act_images"), policy_of("act_images")
    height, width, _ = policy.contract.cameras[tiny.TOP]
    seen = observation(policy, seed=1)
    seen[tiny.TOP] = np.zeros((2 * height, 2 * width, 3), np.uint8)
    with Bench(folder, policy) as bench, bench.robot("arm") as robot:
        assert robot.ack.warnings == ()
        for _ in range(3):
            robot.infer(seen)
        (session,) = bench.service.status(with_clients=True).clients
    told = f"{2 * width} x {2 * height}, the policy was trained with {width} x {height}"
    assert session.warnings == (f"{tiny.TOP}: {told}",)
    assert caplog.text.count("event=session_warning") == 1


def test_what_was_announced_is_warned_of_in_the_ack_and_seen_in_the_status(
    checkpoint_of, policy_of
):
    folder, policy = checkpoint_of("act_images"), policy_of("act_images")
    features = RobotFeatures.of(policy.contract)
    height, width, _ = features.cameras[tiny.TOP]
    cameras = {**features.cameras, tiny.TOP: (3 * height, 3 * width, 3)}
    announced = dataclasses.replace(features, cameras=cameras)
    seen = observation(policy, seed=1)
    seen[tiny.TOP] = np.zeros((3 * height, 3 * width, 3), np.uint8)
    with Bench(folder, policy) as bench, bench.robot("arm", robot=announced) as robot:
        robot.infer(seen)
        (session,) = bench.service.status(with_clients=True).clients
        assert f"{3 * width} x {3 * height}, the policy was trained with" in robot.ack.warnings[0]
        assert session.warnings == robot.ack.warnings, "and not once more for its observations"


def test_an_observation_that_failed_is_seen_in_the_status(checkpoint, policy):
    with Bench(checkpoint, policy) as bench:
        sender = Sender(bench, policy, "arm")

        def failed() -> int:
            return bench.service.status(with_clients=True).clients[0].failed

        for number in (1, 2):
            sender.send(number, body=wire.OBSERVATION.encode(wire.Observation()))
            eventually(lambda number=number: failed() == number)
        (session,) = bench.service.status(with_clients=True).clients
        (warning,) = session.warnings
        assert warning.startswith("an observation failed: ")
        assert "missing" in warning
        sender.robot.close()
