"""Robots and servers over real Zenoh, with and without a router, through kills and restarts."""

import pytest

from lefleet_client.remote import NoServer, RemotePolicy
from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.client.remote.child import ChildServer
from tests.client.remote.scripted import ScriptedServer, observation
from tests.client.transport.networks import FREE_PORT, Router
from tests.client.transport.waiting import LONG_S


def robot(*endpoints: str, **options) -> RemotePolicy:
    return RemotePolicy(endpoints, "fold", client_id="arm", timeout_s=LONG_S, **options)


def test_a_robot_outlives_the_server_that_it_is_connected_to():
    with ChildServer("a", FREE_PORT) as first, robot(first.endpoint) as policy:
        assert policy.infer(observation(image=True)).server == "a"
        first.kill()
        with ChildServer("b", first.endpoint):
            chunk = policy.infer(observation(7.0, image=True))
            assert (chunk.server, chunk.model[0, 0]) == ("b", 21.0)


def test_two_servers_need_no_router():
    with (
        ChildServer("a", FREE_PORT) as first,
        ChildServer("b", FREE_PORT) as second,
        robot(first.endpoint, second.endpoint) as policy,
    ):
        servers = {"a": first, "b": second}
        taken = policy.infer(observation()).server
        servers.pop(taken).kill()
        (other,) = servers
        assert policy.infer(observation()).server == other
        with ChildServer("again", {"a": first, "b": second}[taken].endpoint):
            servers[other].kill()
            assert policy.infer(observation()).server == "again"


def test_of_two_endpoints_one_is_enough():
    with ChildServer("a", FREE_PORT) as server, ChildServer("b", FREE_PORT) as absent:
        absent.kill()
        with robot(absent.endpoint, server.endpoint) as policy:
            assert policy.infer(observation()).server == "a"


def test_a_robot_outlives_the_router():
    router = Router(FREE_PORT)
    settings = ZenohSettings(connect=(router.endpoint,))
    with ZenohTransport.open(settings) as node:
        ScriptedServer(node)
        with robot(router.endpoint) as policy:
            policy.infer(observation())
            router.close()
            router = Router(router.endpoint)
            assert policy.infer(observation(3.0)).model[0, 0] == 9.0
    router.close()


def test_a_frozen_server_is_left_for_another():
    with (
        ChildServer("a", FREE_PORT) as first,
        ChildServer("b", FREE_PORT) as second,
        robot(first.endpoint, second.endpoint) as policy,
    ):
        servers = {"a": first, "b": second}
        frozen = servers.pop(policy.infer(observation()).server)
        frozen.freeze()
        try:
            assert policy.infer(observation()).server in servers
        finally:
            frozen.thaw()


def test_no_server_behind_a_router():
    router = Router(FREE_PORT)
    try:
        with pytest.raises(NoServer, match=f"at {router.endpoint}; no other server answers"):
            RemotePolicy(router.endpoint, "fold", timeout_s=0.3)
    finally:
        router.close()
