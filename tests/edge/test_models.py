"""Servers that go away while others are there: a replica takes over, another model never does.

The arm reads from each action which model computed it. Each test leaves one server for the next.
"""

import signal

import pytest

from lefleet_client.stream import Mode
from tests.edge.arm import FPS, stamped
from tests.edge.plant import ROOM, Rollout, RouterProcess, Server

pytestmark = pytest.mark.slow

HUB_ID = "chaos/model"


class Hub:
    """Hugging Face's cache with one checkpoint, whose branch main moves."""

    def __init__(self, cache) -> None:
        self.variables = {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
        self._folder = cache / "models--chaos--model"

    def publish(self, mark: float) -> None:
        commit = f"{int(mark):040x}"
        stamped(self._folder / "snapshots" / commit, mark=mark)
        main = self._folder / "refs" / "main"
        main.parent.mkdir(exist_ok=True)
        main.write_text(commit)


class Plant:
    """A router, and two replicas that serve what main was when they were started."""

    def __init__(self, folder) -> None:
        self.hub = Hub(folder)
        self.hub.publish(mark=1.0)
        self.router = RouterProcess()
        self.servers = {name: self._start(name) for name in ("left", "right")}
        for server in self.servers.values():
            server.ready()

    def restart(self, checkpoint: str) -> None:
        """Kill all servers, and start another checkpoint under the name of one of them."""
        for server in self.servers.values():
            server.kill()
        name = min(self.servers)
        self.servers = {name: self._start(name, checkpoint)}

    def close(self) -> None:
        for child in (*self.servers.values(), self.router):
            child.kill()

    def _start(self, name: str, checkpoint: str = HUB_ID) -> Server:
        return Server(checkpoint, self.router.endpoint, name, **self.hub.variables)


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    plant = Plant(tmp_path_factory.mktemp("plant"))
    yield plant
    plant.close()


def test_a_replica_takes_over_from_one_that_drains_without_a_stalled_tick(plant):
    with Rollout(plant.router.endpoint, **ROOM) as rollout:
        rollout.executes(FPS)
        before = rollout.seen.fallbacks
        drained = plant.servers.pop(rollout.seen.servers[-1])
        drained.send(signal.SIGTERM)
        assert drained.ended() == 0
        rollout.executes(2 * FPS)
        assert rollout.seen.fallbacks == before
        rollout.becomes(Mode.STREAMING)
        assert rollout.seen.servers[-1:] == list(plant.servers)


def ends_when_restarted(plant, checkpoint) -> str:
    """Run the arm on the present server, restart that with `checkpoint`; why the arm gave up."""
    with Rollout(plant.router.endpoint, homing=True) as rollout:
        rollout.executes(25)
        before = set(rollout.seen.marks)
        plant.restart(checkpoint)
        reason = rollout.gives_up()
    assert rollout.seen.marks == before
    assert len(rollout.seen.digests) == 1
    return reason


def test_other_weights_under_the_same_names_end_the_rollout(plant):
    plant.hub.publish(mark=2.0)
    reason = ends_when_restarted(plant, HUB_ID)
    assert "it serves another checkpoint now" in reason


@pytest.mark.chaos
def test_another_checkpoint_ends_the_rollout(plant, tmp_path):
    other = stamped(tmp_path / "other", mark=3.0, chunk_size=80, n_action_steps=80)
    reason = ends_when_restarted(plant, str(other))
    assert "is wanted" in reason
    assert "is served" in reason
