"""Messages from broken or hostile programs: counted, logged once, harmless to other robots."""

import io
import logging
import os
import struct
from pathlib import Path

import msgspec
import numpy as np
import pytest

from lefleet.cli.output import event_handler
from lefleet_client import wire
from lefleet_client.remote import Refused, RemotePolicy
from lefleet_client.transport import OBSERVATION
from tests.server.scene import GOOD_HEADER, Scene
from tests.server.serving import eventually, keys_of, observation

MIB = 1 << 20


@pytest.fixture(scope="module")
def checkpoint(checkpoint_of):
    return checkpoint_of("act_images")


@pytest.fixture(scope="module")
def policy(policy_of):
    return policy_of("act_images")


@pytest.fixture
def scene(checkpoint, policy):
    scene = Scene(checkpoint, policy)
    yield scene
    scene.close()


def body(**changes) -> bytes:
    tensor = {"dtype": "float32", "shape": [2], "data": b"\0" * 8}
    fields = {"type": "observation", "vectors": {"observation.state": tensor}, **changes}
    return msgspec.msgpack.encode(fields)


HUGE = {"dtype": "float32", "shape": [2**31, 2**31], "data": b""}
BOMB = {"codec": "jpeg", "shape": [60000, 60000, 3], "data": b"\xff\xd8\xff\xe0"}


def test_garbage_in_headers_is_counted_and_not_answered(scene):
    publisher = scene.publisher_of("unknown")
    good = GOOD_HEADER.pack()
    wrong = [
        b"",
        b"x" * 26,
        b"x" * 28,
        struct.pack("<H", 99) + good[2:],
        good[:2] + b"\x09" + good[3:],
    ]
    for attachment in wrong * 20:
        publisher.put(b"", attachment)
    eventually(lambda: sum(scene.service.dropped.values()) >= len(wrong) * 20)
    assert set(scene.service.dropped) == {"length", "version", "type"}
    np.testing.assert_array_equal(scene.ask(), scene.expected)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"", "cut off"),
        (b"\xc1" * 100, "observation"),
        (body(vectors={"observation.state": HUGE}), "above"),
        (body(images={"observation.images.top": BOMB}), "above"),
        (
            body(vectors={"observation.state": {"dtype": "object", "shape": [1], "data": b"x"}}),
            "dtype",
        ),
        (body(history=[{}] * 1000), "items"),
        (body(history=[{}]), "history: 1 frames, and the policy looks at 0"),
        (body(task="x" * 100_000), "task"),
    ],
    ids=["empty", "garbage", "tensor", "image", "dtype", "items", "history", "task"],
)
def test_a_bad_body_is_a_failed_request_with_a_reason(scene, payload, words):
    scene.publisher_of("honest").put(payload, scene.as_honest(10_000))
    # The first outcome is that of the honest robot's own request.
    scene.outcomes.wait(2)
    assert [one.result for one in scene.outcomes] == ["answered", "failed"]
    assert words in scene.outcomes[-1].reason
    np.testing.assert_array_equal(scene.ask(), scene.expected)


def test_an_observation_larger_than_its_contract_can_need_is_refused_before_it_waits(scene):
    heard = []
    scene._nodes[1].subscribe(scene.keys("honest").action, heard.append)
    scene.publisher_of("honest").put(bytes(3 * MIB), scene.as_honest(10_000))
    eventually(lambda: heard)
    event = wire.EVENT.decode(heard[0].payload)
    assert (type(event), event.seq_id) == (wire.RequestFailed, 10_000)
    assert "3145728 bytes, above" in event.reason
    assert scene.service.dropped == {"too_large": 1}
    np.testing.assert_array_equal(scene.ask(), scene.expected)
    assert [one.result for one in scene.outcomes] == ["answered"] * len(scene.outcomes)


def test_a_robot_without_a_session_gets_an_answer_and_is_logged_once(scene, caplog):
    caplog.set_level(logging.WARNING, "lefleet.server")
    heard = []
    listener = scene._nodes[1].subscribe(scene.keys("lost").action, heard.append)
    publisher = scene.publisher_of("lost")
    for _ in range(200):
        publisher.put(body(), GOOD_HEADER.pack())
    eventually(lambda: heard)
    event = wire.EVENT.decode(heard[0].payload)
    listener.close()
    assert isinstance(event, wire.SessionClosed)
    assert "open one" in event.reason
    eventually(lambda: scene.service.dropped.get("no_session", 0) >= 100)
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        f"event=dropped reason=no_session key={scene.keys('lost').obs!r}"
    ]
    np.testing.assert_array_equal(scene.ask(), scene.expected)


def test_a_flood_costs_a_mailbox_and_not_memory(scene):
    """Hundreds of megabytes from a robot that has a session; another one is served as before."""
    greedy = RemotePolicy(scene.router.endpoint, "test", client_id="greedy", timeout_s=30)
    noise = {"codec": "raw", "shape": [256, 512, 3], "data": os.urandom(256 * 512 * 3)}
    payload = body(images={"observation.images.top": noise})
    header = GOOD_HEADER._replace(session_epoch=greedy.ack.session_epoch)
    publisher = scene.publisher_of("greedy")
    before = _resident()
    for seq_id in range(1500):
        publisher.put(payload, header._replace(seq_id=seq_id).pack())
        if seq_id % 100 == 0:
            np.testing.assert_array_equal(scene.ask(), scene.expected)
    assert _resident() - before < 256 * MIB
    np.testing.assert_array_equal(scene.ask(), scene.expected)
    greedy.close()


def test_many_unknown_clients_do_not_fill_the_server(scene, caplog):
    caplog.set_level(logging.INFO, "lefleet.server")
    for number in range(600):
        publisher = scene.publisher_of(f"unknown {number}")
        publisher.put(body(), GOOD_HEADER.pack())
        publisher.close()
    eventually(lambda: scene.service.dropped.get("no_session", 0) >= 500)
    np.testing.assert_array_equal(scene.ask(), scene.expected)
    assert scene.service.status().sessions == 1
    assert len(caplog.records) <= 3
    assert len(scene._nodes[0]._declared) < 50


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x80"])
def test_garbage_questions_are_refused_counted_and_logged_once(scene, payload, caplog):
    keys = scene.keys("unknown")
    asked = scene._nodes[1]
    for _ in range(5):
        (reply,) = asked.ask(keys.session, payload, 5.0).replies
        assert isinstance(wire.SESSION_REPLY.decode(reply.payload), wire.SessionRejected)
        (reply,) = asked.ask(keys.reset, payload, 5.0).replies
        assert isinstance(wire.RESET_REPLY.decode(reply.payload), wire.SessionClosed)
    assert scene.service.dropped == {"question": 10}
    assert len(caplog.records) == 1
    np.testing.assert_array_equal(scene.ask(), scene.expected)


@pytest.mark.parametrize("word", ["session", "reset", "status"])
def test_a_huge_question_is_refused_by_its_size_alone(scene, word):
    keys = scene.keys("honest")
    key = keys_of(scene.service.status()).status if word == "status" else getattr(keys, word)
    # Everything about it is right but its size: it would be read otherwise.
    fields = {"type": "status_request", "with_clients": True, "tags": {"x": "y" * 4 * MIB}}
    (reply,) = scene._nodes[1].ask(key, msgspec.msgpack.encode(fields), 20.0).replies
    assert scene.service.dropped == {"question": 1}
    if word == "session":
        assert "above 65536" in wire.SESSION_REPLY.decode(reply.payload).reason
    if word == "status":
        assert wire.STATUS.decode(reply.payload).clients == ()
    np.testing.assert_array_equal(scene.ask(), scene.expected)


def test_keys_of_no_client_are_counted_and_logged_once(scene, caplog):
    key = scene.keys("unknown").obs.replace("unknown", "obs")
    publisher = scene._nodes[1].publisher(key, OBSERVATION)
    for _ in range(50):
        publisher.put(body(), GOOD_HEADER.pack())
    eventually(lambda: scene.service.dropped.get("key", 0) >= 40)
    assert len(caplog.records) == 1
    np.testing.assert_array_equal(scene.ask(), scene.expected)


@pytest.mark.parametrize(
    ("seq_id", "episode_id"), [(1, 2**32 - 1), (2**63, 0)], ids=["episode", "seq"]
)
def test_a_forged_observation_far_ahead_does_not_disable_a_robot(scene, seq_id, episode_id):
    session_id = scene.robot.ack.session_id
    heard = []
    scene._nodes[1].subscribe(scene.keys("honest").action, heard.append)
    scene.publisher_of("honest").put(body(), scene.as_honest(seq_id, episode_id))
    eventually(lambda: scene.service.dropped == {"jump": 1})
    eventually(lambda: heard)
    assert "ahead" in wire.EVENT.decode(heard[0].payload).reason
    np.testing.assert_array_equal(scene.ask(), scene.expected)
    assert scene.robot.ack.session_id == session_id


def test_a_robot_behind_a_forged_observation_opens_a_new_session(scene):
    session_id = scene.robot.ack.session_id
    # Its answer, that it cannot be used, must not be taken for that to the robot's own.
    scene.publisher_of("honest").put(body(), scene.as_honest(7, episode_id=9_000))
    eventually(lambda: scene.service.status(with_clients=True).clients[0].episode_id == 9_000)
    np.testing.assert_array_equal(scene.ask(), scene.expected)
    assert scene.robot.ack.session_id != session_id
    assert scene.service.status().sessions == 1


def test_a_robot_behind_a_forged_reset_opens_a_new_session(scene):
    ack = scene.robot.ack
    reset = wire.Reset(session_id=ack.session_id, session_epoch=ack.session_epoch, episode_id=9_000)
    scene._nodes[1].ask(scene.keys("honest").reset, wire.RESET.encode(reset), 5.0)
    scene.robot.reset()
    np.testing.assert_array_equal(scene.ask(), scene.expected)
    assert scene.robot.ack.session_id != ack.session_id


def test_a_reset_far_ahead_is_refused(scene):
    ack = scene.robot.ack
    reset = wire.Reset(
        session_id=ack.session_id, session_epoch=ack.session_epoch, episode_id=2**32 - 1
    )
    asked = scene._nodes[1].ask(scene.keys("honest").reset, wire.RESET.encode(reset), 5.0)
    reply = wire.RESET_REPLY.decode(asked.replies[0].payload)
    assert isinstance(reply, wire.SessionClosed)
    assert "ahead" in reply.reason
    np.testing.assert_array_equal(scene.ask(), scene.expected)


def test_a_thousand_robots_that_never_ask_leave_a_place_for_one_that_does(checkpoint, policy):
    """Their tokens live as long as the test. The robot that has worked keeps its place."""
    scene = Scene(checkpoint, policy, max_sessions=4, first_request_s=0.2)
    try:
        session_id = scene.robot.ack.session_id
        for number in range(1000):
            if isinstance(scene.open_by_hand(f"silent {number}"), wire.SessionAck):
                scene.announce(f"silent {number}")
        assert scene.service.status().sessions == 4

        def comes_in() -> bool:
            try:
                with RemotePolicy(scene.router.endpoint, "test", client_id="late") as late:
                    chunk = late.infer(observation(policy, 0), noise_seed=0)
            except Refused:
                return False
            np.testing.assert_array_equal(chunk.robot, scene.expected)
            return True

        eventually(comes_in)
        np.testing.assert_array_equal(scene.ask(), scene.expected)
        assert scene.robot.ack.session_id == session_id
    finally:
        scene.close()


def test_opens_without_end_write_little_whatever_the_names(scene):
    """Through the handler that `lefleet serve` installs."""
    written = io.StringIO()
    handler, log = event_handler(written), logging.getLogger("lefleet")
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        for number in range(200):
            scene.open_by_hand(f"arm {number}", robot_type="\x1b" * 16_000)
            scene.open_by_hand(f"arm {number}", model="\x9b" * 256)
            scene.open_by_hand(f"arm {number}", vectors={"\x9b" * 200: ["\x9b" * 200]})
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
    assert len(written.getvalue()) < 1000 * 1000
    assert written.getvalue().replace("\n", "").isprintable()
    assert max(map(len, written.getvalue().splitlines())) < 5000


def test_a_question_about_the_status_that_cannot_be_read_is_answered_and_counted(scene, caplog):
    key = keys_of(scene.service.status()).status
    for _ in range(5):
        (reply,) = scene._nodes[1].ask(key, b"\xc1" * 100, 5.0).replies
        assert wire.STATUS.decode(reply.payload).sessions == 1
    assert scene.service.dropped == {"question": 5}
    assert len(caplog.records) == 1


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
