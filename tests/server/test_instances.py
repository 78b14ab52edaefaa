"""Servers of one name: the second refuses to start, and of two that meet the later one drains."""

import itertools
import threading
from types import SimpleNamespace

import msgspec
import pytest

from lefleet.errors import BadInput
from lefleet.server import instances, service
from lefleet.server.service import PolicyService
from lefleet_client import wire
from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.client.transport.networks import FREE_PORT, Router
from tests.server.serving import (
    Bench,
    Gated,
    eventually,
    keys_of,
    manifest_of,
    observation,
    serving,
)

NAMED = {"server_name": "twin", "zenoh__extra": "{transport/link/tx/lease: 100}"}


def second(bench: Bench, **fields: str) -> PolicyService:
    """Another server under the name of the bench's own."""
    manifest = manifest_of(bench.folder, service_name="test", **NAMED, **fields)
    return PolicyService(bench.policy, manifest, bench.node())


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self._function = function
        self.count = 0

    def __call__(self, *values):
        self.count += 1
        return self._function(*values)


def server_threads() -> list[str]:
    names = ("prepare-", "inference", "reaper", "instances")
    return [one.name for one in threading.enumerate() if one.name.startswith(names)]


def test_ids_of_later_starts_sort_later():
    ids = [instances.new_instance_id() for _ in range(3)]
    assert len(set(ids)) == 3
    assert [one[:12] for one in ids] == sorted(one[:12] for one in ids)


def test_a_second_server_of_one_name_refuses_to_start_and_names_the_first(checkpoint, policy):
    with Bench(checkpoint, policy, NAMED) as bench, bench.robot("arm") as robot:
        first = bench.service.status().instance_id
        with pytest.raises(
            BadInput, match=rf"server_name: .* twin \(instance {first}\)"
        ) as refused:
            second(bench).start()
        assert "--server_name" in str(refused.value)
        with pytest.raises(BadInput, match=first):
            second(bench, model_name="another-model").start()
        robot.infer(observation(policy, 0))
        assert bench.service.is_ready


def test_the_name_of_a_server_that_just_died_is_waited_for(checkpoint, policy, monkeypatch):
    """Its token disappears while the next one waits: that one starts."""
    with Bench(checkpoint, policy, NAMED) as bench:

        class DeathWhileWaiting(threading.Event):
            def wait(self, timeout=None):
                bench.node_of_server().close()
                return super().wait(timeout)

        later = second(bench)
        with monkeypatch.context() as patch:
            patch.setattr(instances, "threading", SimpleNamespace(Event=DeathWhileWaiting))
            later.start()
        assert later.is_ready
        later.close()


def test_another_name_is_another_server(checkpoint, policy):
    with Bench(checkpoint, policy, NAMED) as bench:
        manifest = manifest_of(checkpoint, service_name="test", server_name="other")
        with PolicyService(policy, manifest, bench.node()) as other:
            assert other.is_ready


def test_a_server_that_is_closed_leaves_no_token_and_its_name_is_free(checkpoint, policy):
    with Bench(checkpoint, policy, NAMED) as bench:
        node = bench.node()
        alive = keys_of(bench.service.status()).alive
        assert node.present(alive, 5.0) == {alive}
        bench.service.close()
        assert node.present(alive, 5.0) == frozenset()
        with second(bench):
            assert node.present(alive, 5.0) == {alive}


def test_observations_are_received_before_a_session_can_be_opened(checkpoint, policy, monkeypatch):
    """And the token, by which robots find the server, comes last."""
    with Bench(checkpoint, policy) as bench:
        manifest = manifest_of(checkpoint, service_name="test", server_name="other")
        node, words = bench.node(), []
        for name in ("subscribe", "serve", "announce"):
            monkeypatch.setattr(node, name, _noting(words, getattr(node, name)))
        with PolicyService(policy, manifest, node):
            assert words == ["obs", "reset", "session", "status", "alive"]


def _noting(words, declare):
    def noting(key, *values):
        words.append(key.rpartition("/")[2])
        return declare(key, *values)

    return noting


@pytest.mark.parametrize("failing", ["watch", "serve", "subscribe", "announce"])
def test_a_start_that_fails_midway_leaves_nothing_behind(checkpoint, policy, failing, monkeypatch):
    before = server_threads()
    with Bench(checkpoint, policy) as bench:
        running, declared = server_threads(), _declared(bench)
        assert running != before
        manifest = manifest_of(checkpoint, service_name="test", server_name="failing")
        node = bench.node()
        failed = PolicyService(policy, manifest, node)
        monkeypatch.setattr(node, failing, _refuse)
        with pytest.raises(RuntimeError, match="no more declarations"):
            failed.start()
        monkeypatch.undo()
        assert sorted(server_threads()) == sorted(running)
        assert _declared(bench) == declared
    assert server_threads() == before


def _declared(bench: Bench) -> tuple[int, ...]:
    network = bench.network
    lists = (network.subscriptions, network.services, network.watches, network.tokens.elements())
    return tuple(len(list(one)) for one in lists)


def _refuse(*_):
    raise RuntimeError("no more declarations")


def test_of_two_that_meet_when_a_partition_heals_the_later_one_gives_way(
    checkpoint, policy, monkeypatch
):
    """Two peers that do not know of each other, until a router connects both."""
    monkeypatch.setattr(instances, "CHECK_EVERY_S", 0.05)
    name_taken = threading.Event()
    ports = [Router(FREE_PORT) for _ in range(2)]
    nodes = [ZenohTransport.open(ZenohSettings(connect=(one.endpoint,))) for one in ports]
    try:
        with (
            serving(checkpoint, policy, nodes[0], server_name="twin") as earlier,
            serving(
                checkpoint, policy, nodes[1], server_name="twin", on_name_taken=name_taken.set
            ) as later,
        ):
            assert earlier.is_ready
            assert later.is_ready
            both = ZenohSettings(
                mode="router",
                listen=("tcp/127.0.0.1:0",),
                connect=tuple(one.endpoint for one in ports),
            )
            with ZenohTransport.open(both):
                assert name_taken.wait(20)
            assert (later.is_draining, later.other_instances) == (True, 1)
            assert earlier.is_ready
            earlier.require_own_name()
            with pytest.raises(BadInput, match=earlier.status().instance_id):
                later.require_own_name()
    finally:
        for one in (*nodes, *ports):
            one.close()


def test_a_status_that_cannot_be_read_does_not_hide_another_server(checkpoint, policy, monkeypatch):
    """Neither from one that starts, nor from one that already runs."""
    with Bench(checkpoint, policy, NAMED) as bench:
        status = bench.service.status()
        bench.node().serve(keys_of(status).status, lambda _: b"not a status")
        with pytest.raises(BadInput, match=status.instance_id):
            second(bench).start()
        monkeypatch.setattr(service, "require_free_name", lambda *_: None)
        name_taken = threading.Event()
        with serving(checkpoint, policy, bench.node(), on_name_taken=name_taken.set, **NAMED):
            assert name_taken.wait(20)


def test_made_up_statuses_neither_stop_a_server_nor_fill_it(checkpoint, policy, monkeypatch):
    """An earlier one under another name, and ever new ones that seem to have started later."""
    monkeypatch.setattr(instances, "CHECK_EVERY_S", 0.001)
    with Bench(checkpoint, policy, NAMED) as bench:
        status = bench.service.status()
        later = (f"f{number:019x}" for number in itertools.count())

        def made_up(**changes: str) -> bytes:
            return wire.STATUS.encode(msgspec.structs.replace(status, **changes))

        asked = Counted(lambda _: made_up(instance_id=next(later)))
        key = keys_of(status).status
        bench.node().serve(key, asked)
        bench.node().serve(key, lambda _: made_up(instance_id="0", server="another"))
        eventually(lambda: asked.count > 200)
        assert bench.service.is_ready
        assert 0 < bench.service.other_instances <= 64


@pytest.mark.parametrize("clock_of_successor", ["behind", "right"])
def test_a_server_that_was_asked_to_stop_and_its_successor_leave_each_other_alone(
    checkpoint, policy, monkeypatch, clock_of_successor
):
    """Also where the successor seems to have started earlier."""
    monkeypatch.setattr(instances, "CHECK_EVERY_S", 0.01)
    gated = Gated(policy)
    with Bench(checkpoint, gated, NAMED) as bench, bench.robot("arm") as robot:
        asking = threading.Thread(target=lambda: robot.infer(observation(policy, 0)))
        asking.start()
        assert gated.has_begun.acquire(timeout=20)
        draining = threading.Thread(target=bench.service.drain)
        draining.start()
        eventually(lambda: bench.service.is_draining)
        if clock_of_successor == "behind":
            monkeypatch.setattr(service, "new_instance_id", lambda: "0")
        with second(bench) as successor:
            eventually(lambda: bench.service.other_instances)
            looks = Counted(successor._transport.ask)
            monkeypatch.setattr(successor._transport, "ask", looks)
            eventually(lambda: looks.count > 1)
            gated.may_end.release()
            draining.join(20)
            bench.service.close()
            bench.service.require_own_name()
            assert successor.is_ready
            asking.join(20)
