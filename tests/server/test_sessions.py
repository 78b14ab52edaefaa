"""Who has a session, for how long, and what becomes of it."""

import dataclasses

import numpy as np
import pytest

from lefleet.errors import BadInput
from lefleet_client import wire
from lefleet_client.remote import (
    Refused,
    RemotePolicy,
    Replaced,
    RequestRejected,
    RobotFeatures,
    WrongModel,
)
from lefleet_client.transport import OBSERVATION, ZenohSettings, ZenohTransport
from tests.policy import tiny
from tests.server.serving import (
    Bench,
    Outcomes,
    eventually,
    keys_of,
    loaded,
    observation,
    serving,
)


def test_a_robot_with_other_columns_is_refused_by_name(checkpoint, policy):
    with Bench(checkpoint, policy) as bench:
        features = RobotFeatures.of(policy.contract)
        turned = dataclasses.replace(features, action_names=features.action_names[::-1])
        with pytest.raises(Refused, match=r"column 0 is 'gripper\.pos' on the robot"):
            bench.robot("arm", robot=turned)
        with pytest.raises(WrongModel, match="abc"):
            bench.robot("arm", pin_digest="abc")
        assert bench.service.status().sessions == 0


def test_a_full_server_refuses_and_has_room_again_when_a_robot_leaves(checkpoint, policy):
    with Bench(checkpoint, policy, {"max_sessions": 1}) as bench:
        with bench.robot("first"), pytest.raises(Refused, match="all 1 sessions"):
            bench.robot("second")
        with bench.robot("second") as second:
            second.infer(observation(policy, 0))


def test_a_new_handshake_of_a_robot_replaces_its_session(checkpoint, policy):
    with Bench(checkpoint, policy, {"max_sessions": 1}) as bench:
        earlier = bench.robot("arm")
        earlier.infer(observation(policy, 0))
        with bench.robot("arm") as later:
            later.infer(observation(policy, 0))
            assert bench.service.status().sessions == 1
            with pytest.raises(Replaced):
                earlier.infer(observation(policy, 0))
            later.infer(observation(policy, 0))
        earlier.close()


def test_a_replaced_robot_that_only_begins_an_episode_does_not_take_its_place_back(
    checkpoint, policy
):
    with Bench(checkpoint, policy) as bench:
        earlier = bench.robot("arm")
        earlier.infer(observation(policy, 0))
        # The news that it was replaced is lost, as all events may be.
        earlier._connection._inbox.put = lambda _: None
        with bench.robot("arm") as later:
            earlier.reset()
            with pytest.raises(Replaced):
                earlier.infer(observation(policy, 0))
            later.infer(observation(policy, 0))
        earlier.close()


def test_a_session_that_is_opened_while_the_server_drains_is_refused(checkpoint, policy):
    with Bench(checkpoint, policy) as bench:
        node = bench.node_of_server()
        publisher = node.publisher

        def drains_meanwhile(*values):
            node.publisher = publisher
            bench.service.drain()
            return publisher(*values)

        node.publisher = drains_meanwhile
        reply = bench.service._sessions.open(bench.opening())
        assert (reply.check, bench.service.status().sessions) == ("draining", 0)


def test_a_session_cannot_be_closed_with_what_a_status_shows(checkpoint, policy):
    with Bench(checkpoint, policy) as bench, bench.robot("arm") as robot:
        status = bench.service.status(with_clients=True)
        shown = status.clients[0].session_id
        assert robot.ack.session_id.startswith(shown)
        close = wire.SESSION_REQUEST.encode(wire.SessionClose(client_id="arm", session_id=shown))
        bench.node().ask(keys_of(status).client("arm").session, close, 5.0)
        robot.infer(observation(policy, 0))
        assert bench.session_ids() == [robot.ack.session_id]


def test_a_pinned_task_is_the_only_one(checkpoint, policy):
    settings = {"default_task": "fold", "pin_task": "true"}
    with Bench(checkpoint, policy, settings) as bench:
        with pytest.raises(Refused, match="only does 'fold'"):
            bench.robot("arm", task="wipe")
        with bench.robot("arm") as robot:
            robot.infer(observation(policy, 0))
            robot.infer(observation(policy, 0), task="fold")
            with pytest.raises(RequestRejected, match="task: this server only does 'fold'"):
                robot.infer(observation(policy, 0), task="wipe")


def test_a_status_fits_whatever_robots_say_about_themselves(checkpoint, policy):
    features = RobotFeatures.of(policy.contract)
    talkative = dataclasses.replace(features, robot_type="🤖" * 256)
    with Bench(checkpoint, policy) as bench, bench.robot("arm", robot=talkative):
        assert len(wire.STATUS.encode(bench.service.status())) < 10_000


def test_an_ack_says_what_is_served(checkpoint, policy):
    with Bench(checkpoint, policy) as bench, bench.robot("arm") as robot:
        status, served = bench.service.status(), robot.ack.capabilities
        assert (robot.ack.instance_id, served) == (status.instance_id, status.capabilities)
        assert served.contract == policy.contract
        assert (served.digest, served.serving_mode) == (policy.digest, "shared")
        assert (served.chunk_size, served.n_action_steps, served.n_obs_steps) == (8, 6, 1)


def test_a_chunk_names_the_checkpoint_that_computed_it(checkpoint, policy):
    with Bench(checkpoint, policy) as bench, bench.robot("arm") as robot:
        assert robot.infer(observation(policy, 0)).digest == policy.digest


def test_a_status_lists_the_robots_only_when_asked(checkpoint, policy):
    with Bench(checkpoint, policy) as bench, bench.robot("arm"):
        key = keys_of(bench.service.status()).status
        requests = [wire.StatusRequest(with_clients=asked) for asked in (False, True)]
        clients = {}
        for body in (b"", *map(wire.STATUS_REQUEST.encode, requests)):
            reply = bench.node().ask(key, body, 5.0).replies[0].payload
            status = wire.STATUS.decode(reply)
            clients[body] = [one.client_id for one in status.clients]
            assert status.sessions == 1
        assert list(clients.values()) == [[], [], ["arm"]]


def test_each_start_of_a_server_is_another_instance(checkpoint, policy):
    with Bench(checkpoint, policy) as first, Bench(checkpoint, policy) as second:
        assert first.service.status().instance_id != second.service.status().instance_id


def test_events_have_the_schema_version_of_their_session(checkpoint, policy, monkeypatch):
    monkeypatch.setattr(wire.limits, "SCHEMA_VERSION", 2)
    with Bench(checkpoint, policy) as bench:
        asked = bench.opening(newest_schema=2)
        heard = bench.listen(asked.client_id)
        ack = bench.service._sessions.open(asked)
        bench.service.drain()
        eventually(lambda: len(heard) == 2)
        versions = [int.from_bytes(sample.attachment[:2], "little") for sample in heard]
        assert (ack.schema_version, versions) == (2, [2, 2])


def test_trust_in_the_order_of_columns_is_a_warning_in_every_ack(tmp_path):
    tiny.act_environment(tmp_path, contract=False)
    with pytest.raises(BadInput, match="trust_order"):
        loaded(tmp_path)
    policy = loaded(tmp_path, trust_order="true")
    with Bench(tmp_path, policy, {"trust_order": "true"}) as bench:
        for name in ("one", "two"):
            with bench.robot(name) as robot:
                assert "trust" in " ".join(robot.ack.warnings)


@pytest.mark.parametrize("builder", ["vqbet", "tdmpc", "unlisted"])
def test_a_policy_that_cannot_be_shared_takes_one_robot_and_says_why(
    checkpoint_of, policy_of, builder
):
    policy = policy_of(builder)
    assert policy.capabilities.serving_mode == "exclusive"
    with Bench(checkpoint_of(builder), policy) as bench, bench.robot("first") as first:
        with pytest.raises(Refused) as refused:
            bench.robot("second")
        assert policy.mode_reason in str(refused.value)
        chunks = []
        for _ in range(2):
            first.reset()
            chunks.append(first.infer(observation(policy, 0), noise_seed=0).robot)
        np.testing.assert_array_equal(*chunks)
        assert bench.service.status().max_sessions == 1


def test_a_policy_that_leaks_between_requests_is_caught(tmp_path):
    tiny.impure(tmp_path)
    plugins = f"[{tiny.PLUGINS}]"
    policy = loaded(tmp_path, model__discover_packages=plugins)
    assert policy.capabilities.serving_mode == "exclusive"
    assert "after another robot's request" in policy.mode_reason
    with pytest.raises(BadInput, match="cannot be shared"):
        loaded(tmp_path, model__discover_packages=plugins, serving_mode="shared")


def test_a_policy_without_chunks_is_refused_at_start(tmp_path):
    tiny.mute(tmp_path)
    with pytest.raises(BadInput, match="NotImplementedError"):
        loaded(tmp_path, model__discover_packages=f"[{tiny.PLUGINS}]")


def test_a_client_that_shares_a_place_in_the_key_tree_is_refused(checkpoint, policy):
    with (
        Bench(checkpoint, policy) as bench,
        bench.robot("arm 1"),
        pytest.raises(Refused, match="choose another"),
    ):
        bench.robot("arm/1")


def test_a_session_ends_with_its_own_id_only(checkpoint, policy, router):
    settings = ZenohSettings(connect=(router.endpoint,))
    with (
        ZenohTransport.open(settings) as node,
        ZenohTransport.open(settings) as other,
        serving(checkpoint, policy, node) as service,
        RemotePolicy(router.endpoint, "test", client_id="arm") as robot,
    ):
        status = service.status()
        close = wire.SESSION_REQUEST.encode(wire.SessionClose(client_id="arm", session_id="old"))
        answers = other.ask(keys_of(status).client("arm").session, close, 5.0)
        reply = wire.SESSION_REPLY.decode(answers.replies[0].payload)
        assert isinstance(reply, wire.SessionClosed)
        robot.infer(observation(policy, 0))
        assert service.status().sessions == 1


@pytest.mark.parametrize("kind", ["open", "close"])
def test_a_session_question_under_the_key_of_another_client_is_refused(checkpoint, policy, kind):
    with Bench(checkpoint, policy) as bench, bench.robot("arm") as robot:
        asked = {
            "open": bench.opening(client_id="arm"),
            "close": wire.SessionClose(client_id="arm", session_id=robot.ack.session_id),
        }[kind]
        key = keys_of(bench.service.status()).client("thief").session
        reply = bench.node().ask(key, wire.SESSION_REQUEST.encode(asked), 5.0).replies[0].payload
        rejected = wire.SESSION_REPLY.decode(reply)
        assert isinstance(rejected, wire.SessionRejected)
        assert (rejected.check, "'thief'" in rejected.reason) == ("name", True)
        robot.infer(observation(policy, 0))
        assert bench.session_ids() == [robot.ack.session_id]


def test_a_name_that_opens_sessions_without_end_is_told_to_wait_and_others_are_not(
    checkpoint, policy
):
    with Bench(checkpoint, policy) as bench:
        replies = [bench.service._sessions.open(bench.opening()) for _ in range(100)]
        busy = [one for one in replies if isinstance(one, wire.SessionRejected)]
        assert {one.check for one in busy} == {"busy"}
        assert len(busy) > 50
        assert bench.service.status().sessions == 1
        with bench.robot("other") as other:
            other.infer(observation(policy, 0))
        # A robot under that name tries again until it is let in.
        with bench.robot("arm 1") as robot:
            robot.infer(observation(policy, 0))


def test_what_anybody_on_the_network_can_forge_says_so(checkpoint, policy):
    settings = {"zenoh__listen": "[tcp/0.0.0.0:7447]", "insecure": "true"}
    with Bench(checkpoint, policy, settings) as bench, bench.robot("arm") as robot:
        assert bench.service.status().insecure
        assert robot.ack.insecure
    with Bench(checkpoint, policy) as bench, bench.robot("arm") as robot:
        assert not bench.service.status().insecure
        assert not robot.ack.insecure


def test_an_observation_that_no_policy_can_take_keeps_no_place(checkpoint, policy):
    outcomes = Outcomes()
    settings = {"max_sessions": 1, "first_request_s": 0.0001, "observers": [outcomes]}
    with Bench(checkpoint, policy, settings) as bench, bench.robot("squatter") as squatter:
        publisher = bench.node().publisher(bench.keys("squatter").obs, OBSERVATION)
        epoch = squatter.ack.session_epoch
        header = wire.Header(wire.MessageType.OBSERVATION, 1, 0, 0, epoch)
        publisher.put(wire.OBSERVATION.encode(wire.Observation()), header.pack())
        outcomes.wait(1)
        assert outcomes[0].result == "failed"
        heard = bench.listen("squatter")
        with bench.robot("honest") as honest:
            honest.infer(observation(policy, 0))
            eventually(lambda: heard)
            event = wire.EVENT.decode(heard[0].payload)
            assert "another robot needs the place" in event.reason
            # It has worked, so it stays, however long it pauses.
            with pytest.raises(Refused, match="all 1 sessions"):
                bench.robot("third")
