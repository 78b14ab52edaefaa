"""Many faults in a row, drawn from a seed, under an arm that must survive all of them."""

import random
import signal

import pytest

from tests.edge.arm import FPS, stamped
from tests.edge.plant import Operator, Rollout, RouterProcess, Server
from tests.edge.proxy import CALM, Proxy, Weather

pytestmark = pytest.mark.chaos

LOSSY = Weather(jitter_s=0.2, loss=0.3)
PATIENT = {
    "execute_steps": 2 * FPS,
    "max_action_age_s": 4.0,
    "request_timeout_s": 5.0,
    "handshake_timeout_s": 2.0,
}


class Plant:
    """A router, two replicas, and a link to the arm, with a fault for each of them."""

    def __init__(self, folder, seed: int) -> None:
        self._draw = random.Random(seed)
        self.mute_file = folder / "mute"
        self.checkpoint = stamped(folder / "one", mark=1.0, mute_file=str(self.mute_file))
        self.router = RouterProcess()
        self.servers = {name: self._start(name) for name in ("left", "right")}
        for server in self.servers.values():
            server.ready()
        self.proxy = Proxy(self.router.endpoint, seed)
        self.faults = (
            self.kill_server,
            self.drain_server,
            self.freeze_server,
            self.kill_router,
            self.cut_link,
            self.stall_link,
            self.spoil_weather,
            self.mute_servers,
            self.block_driver,
        )

    def __enter__(self) -> "Plant":
        self.proxy.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.__exit__()
        for child in (*self.servers.values(), self.router):
            child.kill()

    def kill_server(self, rollout: Rollout) -> None:
        name = self._draw.choice(list(self.servers))
        self.servers[name].kill()
        self._wait(rollout, 2.0)
        self.servers[name] = self._start(name)

    def drain_server(self, rollout: Rollout) -> None:
        name = self._draw.choice(list(self.servers))
        self.servers[name].send(signal.SIGTERM)
        self._wait(rollout, 1.0)
        self.servers[name].ended()
        self.servers[name] = self._start(name)

    def freeze_server(self, rollout: Rollout) -> None:
        frozen = [one for one in self.servers.values() if self._draw.random() < 0.7]
        for server in frozen:
            server.send(signal.SIGSTOP)
        self._wait(rollout, 4.0)
        for server in frozen:
            server.send(signal.SIGCONT)

    def kill_router(self, rollout: Rollout) -> None:
        self.router.kill()
        self._wait(rollout, 4.0)
        self.router = RouterProcess(self.router.endpoint)

    def cut_link(self, rollout: Rollout) -> None:
        self.proxy.cut()
        self._wait(rollout, 4.0)
        self.proxy.mend()

    def stall_link(self, rollout: Rollout) -> None:
        self.proxy.stall()
        self._wait(rollout, 4.0)
        self.proxy.mend()

    def spoil_weather(self, rollout: Rollout) -> None:
        self.proxy.weather = LOSSY
        self._wait(rollout, 6.0)
        self.proxy.weather = CALM

    def mute_servers(self, rollout: Rollout) -> None:
        self.mute_file.touch()
        self._wait(rollout, 6.0)
        self.mute_file.unlink()

    def block_driver(self, rollout: Rollout) -> None:
        rollout.arm.block(self._draw.uniform(0.1, 2.0))
        self._wait(rollout, 1.0)

    def make_a_fault(self, rollout: Rollout) -> None:
        self._draw.choice(self.faults)(rollout)
        if self._draw.random() < 0.5:
            # Otherwise the next fault meets an arm that is still recovering from this one.
            self.repair()
            rollout.resumes(90.0)

    def repair(self) -> None:
        for server in self.servers.values():
            server.ready()

    def _wait(self, rollout: Rollout, most_s: float) -> None:
        rollout.ticks(1 + int(self._draw.uniform(0.0, most_s) * FPS))

    def _start(self, name: str) -> Server:
        return Server(self.checkpoint, self.router.endpoint, name)


@pytest.mark.parametrize("seed", range(4))
def test_an_arm_survives_faults_of_every_kind_in_any_order(tmp_path, seed):
    with (
        Plant(tmp_path, seed) as plant,
        Rollout(plant.proxy.endpoint, homing=True, max_offline_s=120.0) as rollout,
    ):
        rollout.executes(FPS)
        for _ in range(16):
            plant.make_a_fault(rollout)
        plant.repair()
        rollout.resumes(90.0)
        with Operator(plant.router.endpoint) as operator:
            operator.sees("streaming")


def test_a_minute_of_jitter_and_loss(tmp_path):
    with Plant(tmp_path, 0) as plant, Rollout(plant.proxy.endpoint, **PATIENT) as rollout:
        rollout.executes(FPS)
        plant.proxy.weather = LOSSY
        rollout.ticks(60 * FPS)
        seen = rollout.seen
        assert seen.executed > (seen.executed + seen.fallbacks) / 4
        plant.proxy.weather = CALM
        rollout.resumes()


def test_without_any_server_the_rollout_ends_after_the_bound(tmp_path):
    with (
        Plant(tmp_path, 0) as plant,
        Rollout(plant.proxy.endpoint, homing=True, max_offline_s=5.0) as rollout,
    ):
        rollout.executes(FPS)
        for server in plant.servers.values():
            server.kill()
        assert rollout.gives_up().startswith("no chunk for 5 s: ")
