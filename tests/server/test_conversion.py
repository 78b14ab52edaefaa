"""Between the bytes that travel and the arrays of a policy."""

import pytest

from lefleet.policy.request import BadRequest
from lefleet.server.conversion import policy_request
from lefleet_client import wire
from tests.server.samples import CONTRACT

TOP = "observation.images.top"


def image(height: int, width: int) -> wire.Image:
    """One that cannot be decoded."""
    return wire.Image("jpeg", (height, width, 3), memoryview(b"\xff\xd8"))


def test_all_images_are_checked_before_any_is_decoded():
    observation = wire.Observation(
        images={TOP: image(3000, 4000)}, history=(wire.Frame(images={TOP: image(480, 640)}),)
    )
    with pytest.raises(BadRequest, match="4000 x 3000 is more than"):
        policy_request(
            observation,
            contract=CONTRACT,
            robot_type="",
            default_task="",
            seed=0,
        )
