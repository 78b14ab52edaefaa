"""What a robot says about itself is checked where it is said."""

import pytest

from lefleet_client.remote import RobotFeatures


def features(**changes):
    fitting = {
        "action_names": ("a",),
        "vectors": {"observation.state": ("a",)},
        "cameras": {"observation.images.top": (240, 320, 3)},
        "fps": 30.0,
        "robot_type": "arm",
    }
    return RobotFeatures(**fitting | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fps": 0}, "fps: 0 is not above 0"),
        ({"fps": float("nan")}, "fps"),
        ({"cameras": {"top": (3, 240, 320)}}, "cameras: top .* height, width and 3"),
        ({"cameras": {"top": (240, 320)}}, "cameras: top"),
        ({"cameras": {"top": (0, 320, 3)}}, "cameras: top"),
    ],
)
def test_what_cannot_be_is_named(changes, words):
    assert features()
    with pytest.raises(ValueError, match=words):
        features(**changes)
