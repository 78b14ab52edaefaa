"""Measuring a server, and observations to measure it with."""

from dataclasses import replace

import numpy as np
import pytest

from lefleet_client.remote import RobotFeatures, example_observation, ping
from tests.client.remote.scripted import CONTRACT, STATE, TOP


def test_the_parts_of_a_ping(any_world):
    server = any_world.server()
    policy = any_world.robot(image_codec="jpeg")
    report = ping(policy, example_observation(CONTRACT), count=5)
    assert (report.count, report.servers, report.image_codec) == (5, ("a",), "jpeg")
    assert (report.queue.p50, report.prepare.p95, report.inference.p50) == (0.25, 0.5, 1.0)
    assert 0 < report.total.p50 <= report.total.p95
    assert report.encode.p50 > 0
    assert len(server.observations) == 6


def test_a_ping_of_nothing_is_refused(world):
    world.server()
    with pytest.raises(ValueError, match="count"):
        ping(world.robot(), {}, count=0)


def test_an_example_fits_the_contract_and_can_be_made_again():
    first, again = example_observation(CONTRACT, seed=1), example_observation(CONTRACT, seed=1)
    assert list(first) == [STATE, TOP]
    assert (first[STATE].shape, first[STATE].dtype) == ((3,), np.float32)
    assert (first[TOP].shape, first[TOP].dtype) == ((24, 32, 3), np.uint8)
    for key, value in first.items():
        np.testing.assert_array_equal(value, again[key])
    assert (example_observation(CONTRACT, seed=2)[STATE] != first[STATE]).any()


def test_an_example_has_the_sizes_of_the_robots_own_cameras():
    robot = replace(
        RobotFeatures.of(CONTRACT), cameras=dict.fromkeys(CONTRACT.cameras, (48, 64, 3))
    )
    images = example_observation(CONTRACT, robot=robot)
    assert {images[key].shape for key in CONTRACT.cameras} == {(48, 64, 3)}
    assert set(images) == {*CONTRACT.vectors, *CONTRACT.cameras}
