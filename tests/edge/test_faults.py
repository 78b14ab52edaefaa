"""Faults of servers, routers and links under a moving arm: it falls back, and resumes by itself.

Each test leaves the router and a server for the next one. What `Rollout` checks at its end holds in
all of them.
"""

import itertools
import signal
import time

import pytest

from lefleet_client.stream import Mode
from tests.edge.arm import FPS, stamped
from tests.edge.plant import ROOM, Operator, Rollout, RouterProcess, Server
from tests.edge.proxy import Proxy, Weather

pytestmark = pytest.mark.slow


class Plant:
    """A router and a server of one checkpoint."""

    def __init__(self, folder) -> None:
        self.mute_file = folder / "mute"
        self.checkpoint = stamped(folder / "one", mark=1.0, mute_file=str(self.mute_file))
        self.router = RouterProcess()
        self.server = Server(self.checkpoint, self.router.endpoint).ready()

    def close(self) -> None:
        self.server.kill()
        self.router.kill()


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    plant = Plant(tmp_path_factory.mktemp("plant"))
    yield plant
    plant.close()


def test_a_killed_server_is_replaced_by_its_next_start_and_an_operator_sees_it(plant):
    with Rollout(plant.router.endpoint) as rollout, Operator(plant.router.endpoint) as operator:
        rollout.executes(25)
        operator.sees("streaming")
        plant.server.kill()
        rollout.becomes(Mode.RECONNECTING)
        operator.sees("reconnecting")
        rollout.falls_back(10)
        plant.server = Server(plant.checkpoint, plant.router.endpoint).ready()
        rollout.resumes()
        operator.sees("streaming")
        assert rollout.reconnects == 1


def test_a_frozen_server_is_left_and_taken_again_when_it_goes_on(plant):
    with Rollout(plant.router.endpoint) as rollout:
        rollout.executes(25)
        plant.server.send(signal.SIGSTOP)
        try:
            rollout.becomes(Mode.RECONNECTING)
            rollout.falls_back(10)
        finally:
            plant.server.send(signal.SIGCONT)
        rollout.resumes()


def test_a_killed_router_is_replaced_by_its_next_start(plant):
    with Rollout(plant.router.endpoint) as rollout:
        rollout.executes(25)
        plant.router.kill()
        rollout.becomes(Mode.RECONNECTING)
        rollout.falls_back(10)
        plant.router = RouterProcess(plant.router.endpoint)
        rollout.resumes()
        with Operator(plant.router.endpoint) as operator:
            operator.sees("streaming")


def test_a_cut_link_is_made_again(plant):
    with Proxy(plant.router.endpoint) as proxy, Rollout(proxy.endpoint) as rollout:
        rollout.executes(25)
        proxy.cut()
        rollout.becomes(Mode.RECONNECTING)
        rollout.falls_back(10)
        proxy.mend()
        rollout.resumes()


def test_a_link_over_which_nothing_passes_is_left_and_made_again(plant):
    with Proxy(plant.router.endpoint) as proxy, Rollout(proxy.endpoint) as rollout:
        rollout.executes(25)
        proxy.stall()
        rollout.becomes(Mode.RECONNECTING)
        rollout.falls_back(10)
        proxy.mend()
        rollout.resumes()


def test_jitter_and_loss_slow_the_arm_down_at_most(plant):
    patience = {"max_action_age_s": 4.0, "execute_steps": 100, "request_timeout_s": 5.0}
    with Proxy(plant.router.endpoint) as proxy, Rollout(proxy.endpoint, **patience) as rollout:
        rollout.executes(25)
        proxy.weather = Weather(jitter_s=0.2, loss=0.3)
        rollout.executes(150)
        proxy.weather = Weather()
        rollout.resumes()


def test_a_hanging_driver_makes_what_is_queued_too_old_to_execute(plant):
    with Rollout(plant.router.endpoint) as rollout:
        rollout.executes(25)
        before = rollout.seen.fallbacks
        rollout.arm.block(1.5)
        rollout.executes(25)
        assert rollout.seen.fallbacks > before
        rollout.resumes()


def test_jumps_of_the_wall_clock_have_no_effect(plant, monkeypatch):
    """Of this process, where the rollout is: an hour to and fro, at every reading."""
    jumps = itertools.cycle((0.0, 3600.0, -3600.0, 86_400.0 * 365))
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(next(jumps) * 1e9))
    with Rollout(plant.router.endpoint, **ROOM) as rollout:
        rollout.executes(1)
        before = rollout.seen.fallbacks
        rollout.executes(2 * FPS)
        assert rollout.seen.fallbacks == before
        rollout.becomes(Mode.STREAMING)
        assert rollout.reconnects == 0


def test_a_server_that_opens_sessions_but_never_answers_ends_the_rollout_in_time(plant):
    bounds = {"max_offline_s": 2.0, "request_timeout_s": 0.4}
    with Rollout(plant.router.endpoint, homing=True, **bounds) as rollout:
        rollout.executes(25)
        plant.mute_file.touch()
        began_s = time.monotonic()
        try:
            reason = rollout.gives_up()
        finally:
            plant.mute_file.unlink()
        assert time.monotonic() - began_s < 2.0 + 2.0
        assert reason.startswith("no chunk for 2 s")
        assert rollout.reconnects == 1
