"""A remote policy and a server that behaves."""

import dataclasses
import logging
import os
import signal
import threading

import numpy as np
import pytest

from lefleet_client import wire
from lefleet_client.remote import BadObservation, RemoteError, RemotePolicy, RobotFeatures
from tests.client.remote.scripted import (
    CONTRACT,
    STATE,
    STEPS,
    TOP,
    answer,
    observation,
)
from tests.client.transport.waiting import LONG_S, bounded, eventually


def test_an_observation_becomes_a_chunk(any_world):
    server = any_world.server()
    policy = any_world.robot(task="fold")
    chunk = policy.infer(observation(2.0, image=True))
    np.testing.assert_array_equal(chunk.model, np.full((STEPS, 2), 6, np.float32))
    np.testing.assert_array_equal(chunk.robot, chunk.model * 2)
    assert chunk.model.dtype == chunk.robot.dtype == np.float32
    assert (chunk.server, chunk.digest, chunk.load) == ("a", "d1", 0.5)
    last = server.observations[-1]
    assert (last.body.task, last.header.seq_id) == ("fold", chunk.seq_id)


def test_the_parts_of_the_time_add_up(world):
    world.server()
    timing = world.robot().infer(observation()).timing
    assert (timing.queue_wait_ms, timing.prepare_ms, timing.inference_ms) == (0.25, 0.5, 1.0)
    assert timing.network_ms == max(0.0, timing.round_trip_ms - 1.75)
    assert timing.total_ms == timing.encode_ms + timing.round_trip_ms > 0


def test_everything_that_a_chunk_depends_on_travels(world):
    server = world.server()
    prefix = np.arange(6, dtype=np.float64).reshape(3, 2)
    world.robot(task="fold").infer(
        observation(1.0),
        task="unfold",
        history=(observation(-2.0, image=True), observation(-1.0)),
        prefix_model=prefix,
        prefix_robot=prefix * 2,
        inference_delay_steps=4,
        noise_seed=2**64 - 1,
    )
    (request,) = server.observations
    body = request.body
    assert (body.task, body.inference_delay_steps, body.noise_seed) == ("unfold", 4, 2**64 - 1)
    np.testing.assert_array_equal(wire.decode_tensor(body.prefix_model), prefix)
    np.testing.assert_array_equal(wire.decode_tensor(body.prefix_robot), prefix * 2)
    states = [wire.decode_tensor(frame.vectors[STATE])[0] for frame in body.history]
    assert states == [-2.0, -1.0]
    assert list(body.history[0].images) == [TOP]


def test_no_prefix_and_an_empty_one_are_the_same(world):
    server = world.server()
    world.robot().infer(observation(), prefix_model=np.zeros((0, 2)))
    assert server.observations[0].body.prefix_model is None


def test_the_server_gets_the_robots_own_features_to_compare(world):
    server = world.server()
    robot = RobotFeatures(("b", "a"), {STATE: ("x",)}, {TOP: (10, 20, 3)}, 15.0, "arm")
    world.robot(robot=robot, tags={"site": "lab"}, wants_rtc=True, task="fold", image_codec="raw")
    (asked,) = server.opens
    assert (asked.action_names, asked.vectors) == (("b", "a"), {STATE: ("x",)})
    assert (asked.cameras, asked.fps, asked.robot_type) == ({TOP: (10, 20, 3)}, 15.0, "arm")
    assert (asked.tags, asked.wants_rtc, asked.task) == ({"site": "lab"}, True, "fold")
    assert asked.image_codec == "raw"


def test_without_features_the_servers_contract_is_taken_over(world):
    server = world.server()
    world.robot()
    (asked,) = server.opens
    assert asked.action_names == CONTRACT.action_names
    assert (asked.vectors, asked.cameras) == (CONTRACT.vectors, CONTRACT.cameras)


def test_the_token_is_there_when_the_session_is_asked_for(any_world):
    seen = []
    server = any_world.server()
    plain = server._ack
    server._ack = lambda request: (seen.append(server.client_alive("arm")), plain(request))[1]
    any_world.robot()
    assert seen == [True]


def test_robots_have_different_names_unless_told(world):
    server = world.server()
    world.robot(client_id="")
    world.robot(client_id="")
    first, second = (one.client_id for one in server.opens)
    assert first != second


def test_a_reset_is_acknowledged_and_begins_an_episode(any_world):
    server = any_world.server()
    policy = any_world.robot()
    policy.infer(observation())
    policy.infer(observation())
    policy.reset()
    (reset,) = server.resets
    assert (reset.episode_id, reset.session_id) == (1, policy.ack.session_id)
    policy.infer(observation())
    assert [request.header.episode_id for request in server.observations] == [0, 0, 1]


def test_a_lost_acknowledgement_only_warns(world, caplog):
    server = world.server()
    policy = world.robot(connect_timeout_s=0.2)
    server._reset = None
    server._declared[1].close()
    with caplog.at_level(logging.WARNING):
        policy.reset()
    assert "did not acknowledge episode 1" in caplog.text
    policy.infer(observation())
    assert server.observations[0].header.episode_id == 1


def test_a_reset_takes_no_longer_than_a_call(world):
    server = world.server()
    policy = world.robot(connect_timeout_s=LONG_S * 3, timeout_s=0.1)
    never = threading.Event()
    server._declared[1].close()
    server._transport.serve(server._keys.any_client.reset, lambda _: never.wait(LONG_S * 2))
    bounded(policy.reset)
    never.set()


def test_warnings_of_the_server_are_logged(world, caplog):
    world.server(warnings=("fps: 15 is not 30",))
    with caplog.at_level(logging.WARNING):
        policy = world.robot()
    assert "server a: fps: 15 is not 30" in caplog.text
    assert policy.ack.warnings == ("fps: 15 is not 30",)


def test_leaving_closes_the_session(any_world):
    server = any_world.server()
    with any_world.robot() as policy:
        session_id = policy.ack.session_id
    server.closes.wait(len)
    assert server.closes[0] == wire.SessionClose(client_id="arm", session_id=session_id)
    eventually(lambda: not server.client_alive("arm"))
    with pytest.raises(RemoteError, match="closed; make a new one"):
        policy.infer(observation())
    policy.close()


def test_a_second_caller_gets_an_error_and_a_close_ends_the_first(world):
    arrived = threading.Event()
    world.server(act=lambda request: arrived.set())
    policy = world.robot(timeout_s=LONG_S * 3)
    errors = []

    def wait_for_ever():
        try:
            policy.infer(observation())
        except RemoteError as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait_for_ever, daemon=True)
    thread.start()
    assert arrived.wait(LONG_S)
    with pytest.raises(RemoteError, match="one thread at a time"):
        policy.reset()
    bounded(policy.close)
    thread.join(LONG_S)
    assert errors == ["this RemotePolicy is closed; make a new one"]


def test_a_signal_handler_may_close_in_the_middle_of_a_call(world):
    server = world.server(act=lambda request: os.kill(os.getpid(), signal.SIGUSR1))
    policy = world.robot(timeout_s=LONG_S * 3)
    before = signal.signal(signal.SIGUSR1, lambda *_: policy.close())
    try:
        with pytest.raises(RemoteError, match="closed"):
            policy.infer(observation())
    finally:
        signal.signal(signal.SIGUSR1, before)
    server.closes.wait(len)
    assert len(server.closes) == 1


def test_no_endpoint_is_refused():
    with pytest.raises(ValueError, match=r"^connect: "):
        RemotePolicy([], "fold")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (TOP, np.zeros((24, 32, 3), np.float32)),
        (TOP, np.zeros((3, 24, 32), np.uint8)),
        (TOP, np.zeros((24, 32), np.uint8)),
        (TOP, np.zeros((0, 4, 3), np.uint8)),
        (TOP, np.zeros(3, np.uint8)),
        (STATE, np.zeros((24, 32, 3), np.uint8)),
        (STATE, [[1, 2], [3]]),
        (STATE, np.zeros((), np.float32)),
        (STATE, np.zeros(0, np.float32)),
        (STATE, np.array(["a"])),
        (STATE, None),
    ],
    ids=repr,
)
def test_what_cannot_be_sent_is_refused_with_its_key(world, key, value):
    server = world.server()
    with pytest.raises(BadObservation, match=f"^{key}: (?!the policy does not know)"):
        world.robot().infer({key: value})
    assert server.observations == []


WRIST = "observation.images.wrist"


@pytest.mark.parametrize(
    "unknown",
    [{WRIST: np.zeros((24, 32, 3), np.uint8)}, {"observation.flag": np.array([True])}],
    ids=str,
)
def test_a_key_that_the_policy_does_not_know_is_refused_with_those_it_knows(world, unknown):
    server = world.server()
    policy = world.robot()
    (key,) = unknown
    text = f"^{key}: the policy does not know it; it takes {STATE}, {TOP}$"
    with pytest.raises(BadObservation, match=text):
        policy.infer({**observation(), **unknown})
    with pytest.raises(BadObservation, match=text):
        policy.infer(observation(), history=(unknown,))
    assert server.observations == []


def test_a_camera_that_the_robot_announced_may_be_sent(world):
    """The server has warned of it when the session was opened."""
    server = world.server()
    cameras = {TOP: (24, 32, 3), WRIST: (24, 32, 3)}
    features = dataclasses.replace(RobotFeatures.of(CONTRACT), cameras=cameras)
    policy = world.robot(robot=features, image_codec="raw")
    policy.infer({**observation(image=True), WRIST: np.zeros((24, 32, 3), np.uint8)})
    assert server.observations[0].body.images.keys() == {TOP, WRIST}


@pytest.mark.parametrize(
    "options",
    [
        {"noise_seed": -1},
        {"noise_seed": 2**64},
        {"noise_seed": 1.5},
        {"inference_delay_steps": -1},
        {"inference_delay_steps": "2"},
        {"prefix_model": np.float32(3)},
        {"prefix_robot": [[1, 2], [3]]},
        {"history": observation()},
    ],
    ids=str,
)
def test_what_else_cannot_be_sent_is_refused_with_its_name(world, options):
    server = world.server()
    (name,) = options
    with pytest.raises(BadObservation, match=f"^{name}"):
        world.robot().infer(observation(), **options)
    assert server.observations == []


def test_an_observation_that_is_no_mapping_is_refused(world):
    world.server()
    with pytest.raises(BadObservation, match=r"^observation: arrays by policy feature key"):
        world.robot().infer([1, 2])


def test_whole_numbers_of_numpy_are_numbers(world):
    server = world.server()
    world.robot().infer(observation(), noise_seed=np.uint64(7), inference_delay_steps=np.int64(3))
    body = server.observations[0].body
    assert (body.noise_seed, body.inference_delay_steps) == (7, 3)


def test_a_transport_that_was_closed_is_an_error_of_the_policy(world):
    world.server()
    policy = world.robot()
    policy._connection._transport.close()
    with pytest.raises(RemoteError, match="closed; make a new RemotePolicy"):
        policy.infer(observation())


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"client_id": "x" * 300}, "client"),
        ({"tags": {"": "x"}}, "tags"),
        ({"task": "x" * 20000}, "task"),
    ],
    ids=["client_id", "tags", "task"],
)
def test_a_session_that_cannot_be_asked_for_is_refused_here(world, options, field):
    server = world.server()
    with pytest.raises((RemoteError, wire.BadKey), match=field):
        world.robot(**options)
    assert server.opens == []


def test_vectors_of_other_numbers_become_float32(world):
    server = world.server()
    policy = world.robot()
    policy.infer({STATE: np.array([1, 2, 3])})
    policy.infer({STATE: np.array([True, False, True])})
    sent = [request.body.vectors[STATE].dtype for request in server.observations]
    assert sent == ["float32", "float32"]


def test_the_arrays_of_a_chunk_can_be_changed(world):
    world.server()
    chunk = world.robot().infer(observation())
    chunk.model[:] = 0
    chunk.robot[:] = 0


def test_two_robots_get_their_own_chunks(any_world):
    any_world.server(act=answer)
    first, second = any_world.robot(client_id="arm 1"), any_world.robot(client_id="arm 2")
    for value in range(5):
        assert first.infer(observation(value)).model[0, 0] == 3 * value
        assert second.infer(observation(-value)).model[0, 0] == -3 * value
