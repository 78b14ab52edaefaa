"""A run on two hosts, one of which loses its network in the middle of a training and works on."""

import os
import shutil

import msgspec
import pytest

from lefleet.executors.checks import examine_cluster
from tests.executors.hosts import TwoHosts
from tests.executors.test_ray_chaos import longer
from tests.loop.fuzz import Fuzz, Seen

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None,
        reason="only root can make hosts, with the ip of iproute2",
    ),
]
ENOUGH = 12_000
"""Steps of a training that works on for longer than Ray takes to notice."""


@pytest.fixture
def hosts(tmp_path):
    made = TwoHosts(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.end()


class CutFuzz(Fuzz):
    """Takes the network of the host away that trains."""

    def __init__(self, hosts: TwoHosts, seed: int) -> None:
        self._hosts = hosts
        config = msgspec.structs.replace(longer("cut", ENOUGH), executor=hosts.plan())
        super().__init__(hosts.workdir, config, seed)

    def _processes_of(self, target: str) -> list[Seen]:
        if target != "network":
            return super()._processes_of(target)
        seen = self._hosts.program()
        return [seen] if seen and self._is_half_done("train") else []

    def _strike(self, target: str, pid: int) -> None:
        if target == "network":
            self._hosts.cut()
        else:
            super()._strike(target, pid)


def test_a_training_whose_host_loses_its_network_goes_on_at_another_host(hosts):
    found = examine_cluster(hosts.plan(), hosts.workdir, "cpu")
    assert "2 nodes, 2 CPUs" in found.found
    assert found.asks_for_token
    fuzz = CutFuzz(hosts, seed=1)
    fuzz.attack({"network": 1}, deadline_s=900)
    fuzz.assert_sound()
    assert fuzz.kills == {"network": 1}
    assert fuzz.ends() == {
        "collect": ["committed"],
        "train": ["gone", "committed"],
        "evaluate": ["committed"],
    }
