"""Whether data and environment fit together."""

import pytest

from lefleet.stages.fitting import misfits

DATA = {
    "fps": 10,
    "features": {
        "observation.image": {"dtype": "video", "shape": [96, 96, 3]},
        "observation.state": {"dtype": "float32", "shape": [2]},
        "action": {"dtype": "float32", "shape": [2]},
        "next.reward": {"dtype": "float32", "shape": [1]},
        "timestamp": {"dtype": "float32", "shape": [1]},
    },
}
SHOWN = {"action": (2,), "observation.state": (2,), "observation.image": (96, 96, 3)}


def test_the_same_names_shapes_and_rate_fit():
    assert misfits(DATA, SHOWN, 10) == []


def test_an_environment_may_show_more():
    assert misfits(DATA, {**SHOWN, "observation.images.wrist": (64, 64, 3)}, 10) == []


def test_images_with_channels_first_are_the_same_images():
    image = {"dtype": "image", "shape": [3, 96, 96]}
    data = {**DATA, "features": {**DATA["features"], "observation.image": image}}
    assert misfits(data, SHOWN, 10) == []


@pytest.mark.parametrize(
    ("changes", "fps", "text", "fatal"),
    [
        ({"action": (4,)}, 10, "action has 2 numbers in the data and 4 numbers in the", True),
        ({"observation.state": (39,)}, 10, "observation.state has 2 numbers in the data", True),
        ({"observation.image": (480, 640, 3)}, 10, "96 x 96 x 3 in the data and 480 x 640", False),
        ({}, 50, "the data has 10 frames per second, the environment 50 steps", False),
    ],
)
def test_what_differs_is_named_and_says_whether_an_evaluation_fails(changes, fps, text, fatal):
    (one,) = misfits(DATA, {**SHOWN, **changes}, fps)
    assert text in one.text
    assert one.fatal == fatal


def test_an_input_that_the_environment_does_not_show_is_fatal():
    shown = {"action": (2,), "observation.state": (2,), "observation.images.top": (96, 96, 3)}
    (one,) = misfits(DATA, shown, 10)
    assert one.fatal
    assert one.text == (
        "the data has observation.image, the environment shows observation.images.top, "
        "observation.state"
    )
