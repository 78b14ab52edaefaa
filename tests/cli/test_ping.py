"""A ping asks as a robot of this policy would, and says so when there is no place for it."""

from contextlib import contextmanager

import pytest

from lefleet.server.capture import CapturedModel, CaptureRing, read_captures
from lefleet.server.manifest import CaptureSettings
from lefleet_client import wire
from lefleet_client.remote import RemotePolicy
from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.client.transport.networks import FREE_PORT, Router
from tests.policy import tiny
from tests.server.serving import loaded, manifest_of, serving


@pytest.fixture(scope="module")
def router():
    router = Router(FREE_PORT)
    yield router
    router.close()


@contextmanager
def server(router, folder, policy, **settings):
    node = ZenohSettings(connect=(router.endpoint,))
    with (
        ZenohTransport.open(node) as transport,
        serving(folder, policy, transport, **settings) as service,
    ):
        yield service


def test_a_policy_that_looks_back_gets_all_the_frames_it_looks_at(router, lefleet, tmp_path):
    folder = tiny.diffusion_history(tmp_path / "policy", n_obs_steps=3)
    policy = loaded(folder)
    ring = CaptureRing(
        CaptureSettings(dir=str(tmp_path / "ring")), CapturedModel.of(manifest_of(folder))
    )
    with ring, server(router, folder, policy, capture=ring):
        code, _, err = lefleet("ping", "test", "--connect", router.endpoint, "--count", "1")
    assert code == 0, err
    asked = [
        wire.OBSERVATION.decode(capture.request.observation)
        for _, capture in read_captures(tmp_path / "ring")
    ]
    assert [len(one.history) for one in asked] == [2, 2]
    for one in asked:
        for frame in one.history:
            assert frame.vectors.keys() == one.vectors.keys()
            assert frame.images.keys() == one.images.keys()


def test_a_server_that_is_taken_says_so_in_one_line(router, lefleet, tmp_path):
    folder = tiny.act_environment(tmp_path / "policy")
    policy = loaded(folder, serving_mode="exclusive")
    with (
        server(router, folder, policy) as service,
        RemotePolicy(router.endpoint, "test", client_id="arm"),
    ):
        code, out, err = lefleet("ping", "test", "--connect", router.endpoint)
        name = service.status().server
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == (
        f"lefleet: server {name} refused the session (capacity): the one session of this server is "
        "taken: the manifest says so. A ping needs a robot's place; see who has it: lefleet fleet"
    )
