"""Two servers of one name: the later one ends."""

import threading
from pathlib import Path

import pytest

from lefleet.cli.network import open_node
from lefleet.cli.signals import StopSignals
from lefleet.server import instances
from lefleet_client.remote import discover
from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.client.transport.networks import FREE_PORT, Router
from tests.client.transport.waiting import LONG_S
from tests.server.serving import eventually, serving


def _at(router: Router) -> ZenohTransport:
    """A server's node behind a router."""
    return open_node(ZenohSettings(mode="peer", connect=(router.endpoint,)), StopSignals())


def _twin(folder: Path, router: Router) -> tuple[str, ...]:
    return (
        *("serve", f"--model.repo_or_path={folder}", "--service_name=test", "--server_name=twin"),
        *(f"--zenoh.connect=[{router.endpoint}]", "--audit=none"),
    )


@pytest.fixture
def routers():
    pair = Router(FREE_PORT), Router(FREE_PORT)
    yield pair
    for router in pair:
        router.close()


def test_a_second_server_of_one_name_ends_with_2(checkpoint_of, policy_of, lefleet, routers):
    folder, router = checkpoint_of("act_environment"), routers[0]
    with (
        _at(router) as node,
        serving(folder, policy_of("act_environment"), node, server_name="twin") as first,
    ):
        code, _, err = lefleet(*_twin(folder, router))
    assert code == 2
    assert f"the name twin (instance {first.status().instance_id})" in err
    assert "Stop it, or give this one another --server_name; with TLS, a certificate" in err


def test_a_server_that_meets_an_earlier_one_of_its_name_drains_and_ends_with_2(
    checkpoint_of, policy_of, lefleet, routers, monkeypatch
):
    """Neither knows of the other, until their routers are connected."""
    monkeypatch.setattr(instances, "CHECK_EVERY_S", 0.05)
    folder = checkpoint_of("act_environment")
    is_over = threading.Event()

    def connect_both() -> None:
        with _at(routers[1]) as node:
            eventually(lambda: discover(node, "test", timeout_s=1.0), LONG_S)
        ends = tuple(router.endpoint for router in routers)
        both = ZenohSettings(mode="router", listen=(FREE_PORT,), connect=ends)
        with ZenohTransport.open(both):
            is_over.wait(LONG_S)

    connecting = threading.Thread(target=connect_both)
    with (
        _at(routers[0]) as node,
        serving(folder, policy_of("act_environment"), node, server_name="twin") as first,
    ):
        connecting.start()
        code, _, err = lefleet(*_twin(folder, routers[1]))
        is_over.set()
        connecting.join(LONG_S)
        assert first.is_ready
    assert code == 2
    assert "event=second_instance" in err
    assert "event=drained" in err
    assert f"instance {first.status().instance_id}" in err.splitlines()[-1]
